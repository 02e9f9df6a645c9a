//! Every frame comes back as it was; nothing that a liar sends does harm.

use proptest::prelude::*;
use ringfence_types::{
    Call, CallId, GuestException, LimitKind, Record, RecordKind, Stream, TraceFrame, Value, ValueBudget,
};
use ringfence_wire::{
    DecodeError, FromGuest, HEADER, Header, ToGuest, from_guest, from_guest_cap, limit_frame, to_guest, to_guest_cap,
};

fn reread(frame: &FromGuest) -> Result<FromGuest, DecodeError> {
    let bytes = frame.encode();
    let header = Header::parse(*bytes.first_chunk::<HEADER>().expect("a header"), from_guest_cap)?;
    assert_eq!(header.length, bytes.len() - HEADER);
    from_guest(header.kind, bytes.get(HEADER..).unwrap_or_default(), ValueBudget::DEFAULT)
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![
            Just(Value::None),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            (any::<i128>()).prop_map(|n| Value::int(num_bigint::BigInt::from(n) * 3)),
            (-1e300..1e300).prop_map(Value::Float),
            ".*".prop_map(Value::Str),
            any::<Vec<u8>>().prop_map(Value::Bytes),
            any::<[u8; 16]>().prop_map(Value::Uuid),
            (-9999_i64..9999, 0_u32..86_400, 0_u32..1_000_000)
                .prop_map(|(days, seconds, microseconds)| Value::TimeDelta { days, seconds, microseconds }),
        ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::List),
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Tuple),
            prop::collection::vec((inner.clone(), inner.clone()), 0..8).prop_map(Value::Dict),
            prop::collection::vec(("[a-z]{1,5}", inner), 0..4).prop_map(|fields| Value::Record(Box::new(Record {
                kind: RecordKind::NamedTuple,
                name: "Point".to_owned(),
                fields
            }))),
        ]
    })
}

proptest! {
    #[test]
    fn values_come_back(value in any_value()) {
        prop_assert_eq!(reread(&FromGuest::Done(value.clone())), Ok(FromGuest::Done(value)));
    }

    #[test]
    fn any_bytes_are_refused_or_read(kind in 0_u8..16, body in any::<Vec<u8>>()) {
        let _ = from_guest(kind, &body, ValueBudget::DEFAULT);
        let _ = to_guest(kind, &body);
    }
}

#[test]
fn other_frames_come_back() {
    let frame = TraceFrame { file: "main.py".into(), line: 3, function: "f".into(), source: Some("1/0".into()) };
    let cause = GuestException {
        kind: "KeyError".into(),
        message: "'x'".into(),
        frames: vec![],
        cause: None,
        notes: vec!["n".into()],
        exit_code: Some(-1),
    };
    let raised = GuestException { frames: vec![frame], cause: Some(Box::new(cause.clone())), ..cause };
    for frame in [
        FromGuest::Ready(1),
        FromGuest::Raised(raised),
        FromGuest::Print(Stream::Stderr, b"\xff".to_vec()),
        FromGuest::Limit(LimitKind::Memory, 7),
        FromGuest::Unsupported("generators".into(), Some(4)),
        FromGuest::Await(vec![CallId(1), CallId(9)]),
        FromGuest::Call(Call {
            id: CallId(1),
            function: "f".into(),
            args: vec![Value::None],
            kwargs: vec![("k".into(), Value::Int(1))],
            deferred: true,
        }),
        FromGuest::Restored,
        FromGuest::Sync,
        FromGuest::Branched(3),
    ] {
        assert_eq!(reread(&frame), Ok(frame));
    }
    assert_eq!(limit_frame(LimitKind::Memory, 7).to_vec(), FromGuest::Limit(LimitKind::Memory, 7).encode());
    assert_eq!(to_guest(3, &ToGuest::Snapshot.encode()[HEADER..]), Ok(ToGuest::Snapshot));
    assert_eq!(ToGuest::Synced.encode(), [0, 0, 0, 0, 6]);
    assert_eq!(to_guest(6, &[]), Ok(ToGuest::Synced));
    assert_eq!(to_guest(7, &ToGuest::Fork(2).encode()[HEADER..]), Ok(ToGuest::Fork(2)));
    assert_eq!((to_guest_cap(6), from_guest_cap(13)), (Some(0), Some(0)));
}

#[test]
fn a_liar_is_refused_before_anything_is_built() {
    let deep = (0..200).fold(Value::None, |inner, _| Value::List(vec![inner]));
    assert_eq!(reread(&FromGuest::Done(deep)), Err(DecodeError::Budget { what: "levels", allowed: 64 }));
    let wide = Value::List(vec![Value::None; 200_001]);
    assert_eq!(reread(&FromGuest::Done(wide)), Err(DecodeError::Budget { what: "values", allowed: 200_000 }));
    // A list that claims four thousand million items in six bytes.
    assert_eq!(from_guest(5, &[8, 255, 255, 255, 255, 0], ValueBudget::DEFAULT), Err(DecodeError::Short("a list")));
    let claims = Header::parse([0, 0, 0, 16, 5], from_guest_cap);
    assert_eq!(claims, Err(DecodeError::TooLong { length: 16 << 24, allowed: (4 << 20) + (64 << 10) }));
    assert_eq!(Header::parse([0, 0, 0, 0, 99], to_guest_cap), Err(DecodeError::Tag(99, "frame")));
}
