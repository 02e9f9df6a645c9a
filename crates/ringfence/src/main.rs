//! stand-in
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#[global_allocator]
static ALLOCATOR: ringfence::CountingAllocator = ringfence::CountingAllocator;
fn main() {
    ringfence::become_worker_if_asked();
    let code = std::env::args().nth(1).unwrap();
    let rt = tokio::runtime::Runtime::new().unwrap();
    rt.block_on(async {
        let engine = ringfence::Engine::builder().build().unwrap();
        for _ in 0..3 {
            let t = std::time::Instant::now();
            let mut s = engine.session(ringfence::Policy::closed()).unwrap();
            let o = s.run(code.clone()).await.unwrap();
            println!("{:?} {o:#?}", t.elapsed());
        }
    });
}
