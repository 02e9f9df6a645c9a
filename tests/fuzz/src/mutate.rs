//! A small mutator: the same seed and number give the same input, on every machine.
//!
//! Answers to: the replayer. Must not: know a format. What it splices in are pieces of other seeds.

/// The longest input that is made.
const LONGEST: usize = 64 << 10;
/// Numbers at the edges of their types, and lengths that lie.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// Makes inputs out of seeds.
#[derive(Debug)]
pub struct Mutator {
    seeds: Vec<Vec<u8>>,
    state: u64,
}

impl Mutator {
    /// A mutator of these seeds; `state` chooses the row of inputs.
    pub fn new(seeds: Vec<Vec<u8>>, state: u64) -> Self {
        Self { seeds, state: state | 1 }
    }

    /// The next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.seed();
        for _ in 0..=self.below(6) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn seed(&mut self) -> Vec<u8> {
        let at = self.below(self.seeds.len());
        self.seeds.get(at).cloned().unwrap_or_default()
    }

    /// A number below `end`, or 0 (xorshift64*).
    fn below(&mut self, end: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let high = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        usize::try_from(high).unwrap_or_default() % end.max(1)
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        match self.below(9) {
            0 | 1 => self.flip(input),
            2 => self.put_edge(input),
            3 => self.insert_random(input),
            4 => self.cut_out(input),
            5 => self.double(input),
            6 => self.splice(input),
            7 => self.repeat(input),
            _ => self.swap_digit(input),
        }
    }

    /// A stretch of the input: where it starts and ends.
    fn stretch(&mut self, length: usize, longest: usize) -> (usize, usize) {
        let start = self.below(length + 1);
        let end = (start + 1 + self.below(longest)).min(length);
        (start.min(end), end)
    }

    fn flip(&mut self, input: &mut [u8]) {
        let at = self.below(input.len());
        let bit = self.below(8);
        if let Some(byte) = input.get_mut(at) {
            *byte ^= 1 << bit;
        }
    }

    fn put_edge(&mut self, input: &mut [u8]) {
        let at = self.below(input.len());
        let width = 1 << self.below(4);
        let edge = self.below(EDGES.len());
        let bytes = EDGES.get(edge).copied().unwrap_or_default().to_le_bytes();
        input.iter_mut().skip(at).zip(bytes.iter().take(width)).for_each(|(there, new)| *there = *new);
    }

    fn insert_random(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        for _ in 0..=self.below(8) {
            let byte = u8::try_from(self.below(256)).unwrap_or_default();
            input.insert(at, byte);
        }
    }

    fn cut_out(&mut self, input: &mut Vec<u8>) {
        let (start, end) = self.stretch(input.len(), 32);
        input.drain(start..end);
    }

    fn double(&mut self, input: &mut Vec<u8>) {
        let (start, end) = self.stretch(input.len(), 64);
        let copy: Vec<u8> = input.get(start..end).unwrap_or_default().to_vec();
        input.splice(start..start, copy);
    }

    fn splice(&mut self, input: &mut Vec<u8>) {
        let other = self.seed();
        let (start, end) = self.stretch(other.len(), 128);
        let piece = other.get(start..end).unwrap_or_default().to_vec();
        let (from, to) = self.stretch(input.len(), 64);
        input.splice(from..to, piece);
    }

    /// Nests or lengthens: the same few bytes, over and over.
    fn repeat(&mut self, input: &mut Vec<u8>) {
        let (start, end) = self.stretch(input.len(), 8);
        let piece = input.get(start..end).unwrap_or_default().to_vec();
        let times = 1 << self.below(11);
        input.splice(start..start, piece.repeat(times));
    }

    fn swap_digit(&mut self, input: &mut [u8]) {
        let digits: Vec<usize> = (0..input.len()).filter(|at| input.get(*at).is_some_and(u8::is_ascii_digit)).collect();
        let chosen = self.below(digits.len());
        let digit = b'0' + u8::try_from(self.below(10)).unwrap_or_default();
        if let Some(byte) = digits.get(chosen).and_then(|at| input.get_mut(*at)) {
            *byte = digit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_gives_the_same_inputs() {
        let row = |state| {
            let mut mutator = Mutator::new(vec![b"one = 1".to_vec(), b"[two]".to_vec(), Vec::new()], state);
            (0..2_000).map(|_| mutator.next_input()).collect::<Vec<_>>()
        };
        assert_eq!(row(5), row(5));
        assert_ne!(row(5), row(7));
        assert!(row(5).iter().all(|input| input.len() <= LONGEST));
    }
}
