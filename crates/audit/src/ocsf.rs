//! Records in the Open Cybersecurity Schema Framework, version 1.5.0, for security tools.
//!
//! Answers to: `ringfence audit export --format ocsf`. Must not: lose a detail; what has no place
//! in the class goes to `unmapped`. Each event has one class, and a test walks all events.

use serde_json::{Map, Value as Json, json};

use crate::clock::parse_rfc3339;
use crate::event::Decision;
use crate::record::Record;
use crate::render::render;

/// The version of the schema.
pub const OCSF_VERSION: &str = "1.5.0";

/// The names of all events, as written in logs.
pub fn event_names() -> impl Iterator<Item = &'static str> {
    CLASSES.iter().map(|class| class.event)
}

/// Which class and activity an event is.
struct Class {
    event: &'static str,
    uid: u64,
    name: &'static str,
    activity: u64,
    activity_name: &'static str,
    severity: u64,
}

const fn class(
    event: &'static str,
    (uid, name): (u64, &'static str),
    (activity, activity_name): (u64, &'static str),
    severity: u64,
) -> Class {
    Class { event, uid, name, activity, activity_name, severity }
}

const FILE: (u64, &str) = (1001, "File System Activity");
const PROCESS: (u64, &str) = (1007, "Process Activity");
const EVENT_LOG: (u64, &str) = (1008, "Event Log Activity");
const FINDING: (u64, &str) = (2004, "Detection Finding");
const AUTHORIZE: (u64, &str) = (3003, "Authorize Session");
const ENTITY: (u64, &str) = (3004, "Entity Management");
const NETWORK: (u64, &str) = (4001, "Network Activity");
const LIFECYCLE: (u64, &str) = (6002, "Application Lifecycle");
const API: (u64, &str) = (6003, "API Activity");

const INFORMATIONAL: u64 = 1;
const MEDIUM: u64 = 3;
const OTHER: u64 = 99;

/// Every event with its class. Activity 99 is the schema's `Other`, named here.
const CLASSES: [Class; 32] = [
    class("log_opened", EVENT_LOG, (6, "Start"), INFORMATIONAL),
    class("session_forked", LIFECYCLE, (OTHER, "Session Forked"), INFORMATIONAL),
    class("granted", AUTHORIZE, (1, "Assign Privileges"), INFORMATIONAL),
    class("grant_denied", AUTHORIZE, (1, "Assign Privileges"), MEDIUM),
    class("tier_chosen", LIFECYCLE, (OTHER, "Tier Chosen"), INFORMATIONAL),
    class("tier_moved", LIFECYCLE, (OTHER, "Tier Moved"), INFORMATIONAL),
    class("cell_opened", LIFECYCLE, (3, "Start"), INFORMATIONAL),
    class("run_started", PROCESS, (1, "Launch"), INFORMATIONAL),
    class("call_permitted", API, (OTHER, "Call Permitted"), INFORMATIONAL),
    class("call_denied", API, (OTHER, "Call Denied"), MEDIUM),
    class("call_answered", API, (OTHER, "Call Answered"), INFORMATIONAL),
    class("approval_asked", API, (OTHER, "Approval Asked"), INFORMATIONAL),
    class("approval_answered", API, (OTHER, "Approval Answered"), INFORMATIONAL),
    class("connection_permitted", NETWORK, (1, "Open"), INFORMATIONAL),
    class("connection_denied", NETWORK, (5, "Refuse"), MEDIUM),
    class("connection_ended", NETWORK, (2, "Close"), INFORMATIONAL),
    class("file_read", FILE, (2, "Read"), INFORMATIONAL),
    class("file_written", FILE, (3, "Update"), INFORMATIONAL),
    class("changes_collected", FILE, (2, "Read"), INFORMATIONAL),
    class("threshold_crossed", FINDING, (1, "Create"), MEDIUM),
    class("limit_struck", FINDING, (1, "Create"), MEDIUM),
    class("snapshot_taken", ENTITY, (1, "Create"), INFORMATIONAL),
    class("snapshot_restored", ENTITY, (2, "Read"), INFORMATIONAL),
    class("killed", PROCESS, (2, "Terminate"), MEDIUM),
    class("session_frozen", PROCESS, (OTHER, "Freeze"), MEDIUM),
    class("session_thawed", PROCESS, (OTHER, "Thaw"), INFORMATIONAL),
    class("hold_set", ENTITY, (1, "Create"), MEDIUM),
    class("hold_released", ENTITY, (4, "Delete"), INFORMATIONAL),
    class("sampled", PROCESS, (OTHER, "Sample"), INFORMATIONAL),
    class("run_closed", PROCESS, (2, "Terminate"), INFORMATIONAL),
    class("session_closed", LIFECYCLE, (4, "Stop"), INFORMATIONAL),
    class("checkpoint", EVENT_LOG, (OTHER, "Checkpoint"), INFORMATIONAL),
];

/// What an event of a newer writer becomes: the schema's base event.
const UNKNOWN: Class = class("", (0, "Base Event"), (0, "Unknown"), INFORMATIONAL);

/// One record as an OCSF event. `host` names the machine that wrote it.
pub fn to_ocsf(record: &Record, host: &str) -> Json {
    let class = CLASSES.iter().find(|class| class.event == record.event).unwrap_or(&UNKNOWN);
    let mut event = Map::new();
    let mut put = |name: &str, value: Json| {
        if !value.is_null() {
            event.insert(name.to_owned(), value);
        }
    };
    put("category_uid", json!(class.uid / 1000));
    put("category_name", json!(category_name(class.uid / 1000)));
    put("class_uid", json!(class.uid));
    put("class_name", json!(class.name));
    put("activity_id", json!(class.activity));
    put("activity_name", json!(class.activity_name));
    put("type_uid", json!(class.uid * 100 + class.activity));
    put("type_name", json!(format!("{}: {}", class.name, class.activity_name)));
    put("time", json!(parse_rfc3339(&record.time).unwrap_or(0)));
    let severity = if record.decision == Decision::Denied { class.severity.max(MEDIUM) } else { class.severity };
    put("severity_id", json!(severity));
    put("severity", json!(if severity == MEDIUM { "Medium" } else { "Informational" }));
    let (status, status_name) = status(record, class);
    put("status_id", json!(status));
    put("status", json!(status_name));
    put("status_detail", record.detail.get("reason").cloned().unwrap_or_default());
    put("message", json!(render(record)));
    put("metadata", metadata(record));
    put("actor", actor(record));
    put("device", json!({"name": host, "hostname": host, "type": "Unknown", "type_id": 0}));
    for (name, value) in decision(record).into_iter().chain(particulars(record, class)) {
        put(name, value);
    }
    put("unmapped", json!({"event": record.event, "run": record.run, "prev": record.prev, "detail": record.detail}));
    Json::Object(event)
}

fn category_name(uid: u64) -> &'static str {
    match uid {
        1 => "System Activity",
        2 => "Findings",
        3 => "Identity & Access Management",
        4 => "Network Activity",
        6 => "Application Activity",
        _ => "Uncategorized",
    }
}

/// Success or failure; for a finding, that it is new.
fn status(record: &Record, class: &Class) -> (u64, &'static str) {
    let failed_call = record.detail.get("outcome").is_some_and(|outcome| outcome.as_str() != Some("ok"));
    let failed_run = record.event == "run_closed" && record.detail.get("status") != Some(&json!("completed"));
    match record.decision {
        _ if class.uid == FINDING.0 => (1, "New"),
        Decision::Denied => (2, "Failure"),
        _ if failed_call || failed_run => (2, "Failure"),
        Decision::Allowed | Decision::None => (1, "Success"),
    }
}

fn metadata(record: &Record) -> Json {
    without_nulls(json!({
        "version": OCSF_VERSION,
        "product": {"name": "Ringfence", "vendor_name": "Ringfence", "version": env!("CARGO_PKG_VERSION")},
        "uid": record.hash,
        "sequence": record.seq,
        "event_code": record.event,
        "log_name": "audit",
        "original_time": record.time,
        "correlation_uid": record.run.as_ref().or(record.session.as_ref()),
        "tenant_uid": record.tenant,
        "profiles": ["host", "security_control"],
    }))
}

fn actor(record: &Record) -> Json {
    without_nulls(json!({
        "app_name": "ringfence",
        "user": record.tenant.as_deref().map(user),
        "session": record.session.as_ref().map(|session| json!({"uid": session})),
    }))
}

/// The schema has no `null`: what is not known is absent.
fn without_nulls(mut object: Json) -> Json {
    if let Json::Object(map) = &mut object {
        map.retain(|_, value| !value.is_null());
    }
    object
}

fn user(tenant: &str) -> Json {
    json!({"name": tenant, "uid": tenant, "type": "Other", "type_id": OTHER})
}

/// The attributes of the profile `security_control`.
fn decision(record: &Record) -> Vec<(&'static str, Json)> {
    let (action, disposition, names) = match record.decision {
        Decision::Allowed => (1, 1, ("Allowed", "Allowed")),
        Decision::Denied => (2, 2, ("Denied", "Blocked")),
        Decision::None => return Vec::new(),
    };
    vec![
        ("action_id", json!(action)),
        ("action", json!(names.0)),
        ("disposition_id", json!(disposition)),
        ("disposition", json!(names.1)),
    ]
}

/// What the class requires beyond the base event.
fn particulars(record: &Record, class: &Class) -> Vec<(&'static str, Json)> {
    let detail = |name: &str| record.detail.get(name).cloned().unwrap_or_default();
    let text = |name: &str| record.detail.get(name).and_then(Json::as_str).unwrap_or("unknown").to_owned();
    let session = record.session.as_deref().unwrap_or("unknown");
    match (class.uid, class.name) {
        FILE => {
            let path = text("path");
            let name = path.rsplit('/').next().unwrap_or_default();
            vec![(
                "file",
                json!({"name": name, "path": path, "size": detail("bytes"), "type": "Regular File", "type_id": 1}),
            )]
        }
        PROCESS => vec![("process", process(record))],
        EVENT_LOG => vec![("log_name", json!("audit")), ("log_provider", json!("ringfence"))],
        FINDING => {
            let title = match record.event.as_str() {
                "threshold_crossed" => format!("threshold on {} crossed", text("measure")),
                _ => format!("limit {} struck", text("kind")),
            };
            vec![("finding_info", json!({"uid": record.hash, "title": title, "desc": render(record)}))]
        }
        AUTHORIZE => {
            let functions = detail("functions");
            let none = functions.as_array().is_none_or(Vec::is_empty);
            vec![
                ("user", user(record.tenant.as_deref().unwrap_or("unknown"))),
                ("session", json!({"uid": session})),
                ("privileges", if none { json!(["none"]) } else { functions }),
            ]
        }
        ENTITY => vec![("entity", entity(record))],
        NETWORK => network(record, session),
        LIFECYCLE => {
            let tier = record.detail.get("tier").or(record.detail.get("to")).and_then(Json::as_str).unwrap_or("none");
            vec![("app", json!({"name": format!("ringfence {tier}"), "vendor_name": "Ringfence", "uid": session}))]
        }
        API => vec![("api", api(record)), ("src_endpoint", json!({"name": "cell", "uid": session}))],
        _ => Vec::new(),
    }
}

fn network(record: &Record, session: &str) -> Vec<(&'static str, Json)> {
    let detail = |name: &str| record.detail.get(name).filter(|value| !value.is_null()).cloned();
    let to = json!({"hostname": detail("host"), "port": detail("port"), "ip": detail("address")});
    let mut found = vec![
        ("src_endpoint", json!({"name": "cell", "uid": session})),
        ("dst_endpoint", without_nulls(to)),
        ("connection_info", json!({"uid": detail("connection"), "direction": "Outbound", "direction_id": 2})),
    ];
    if let (Some(up), Some(down)) = (detail("bytes_up"), detail("bytes_down")) {
        found.push(("traffic", json!({"bytes_out": up, "bytes_in": down})));
    }
    found
}

fn process(record: &Record) -> Json {
    let name = record.detail.get("file").and_then(Json::as_str).unwrap_or("python");
    let file = record.detail.get("sha256").map(|hash| {
        let hashes = json!([{"algorithm": "SHA-256", "algorithm_id": 3, "value": hash}]);
        json!({"name": name, "type": "Regular File", "type_id": 1, "hashes": hashes})
    });
    without_nulls(json!({"uid": record.run.as_ref().or(record.session.as_ref()), "name": name, "file": file}))
}

fn entity(record: &Record) -> Json {
    match record.detail.get("target") {
        Some(target) => json!({"name": target, "uid": target, "type": "Kill Switch"}),
        None => without_nulls(json!({"name": "snapshot", "uid": record.detail.get("sha256"), "type": "Snapshot"})),
    }
}

fn api(record: &Record) -> Json {
    let detail = |name: &str| record.detail.get(name).filter(|value| !value.is_null());
    let request = detail("call").map(|call| match detail("arguments") {
        Some(arguments) => json!({"uid": call.to_string(), "data": {"arguments": arguments}}),
        None => json!({"uid": call.to_string()}),
    });
    without_nulls(json!({
        "operation": detail("function").unwrap_or(&json!("unknown")),
        "service": {"name": "ringfence bridge"},
        "request": request,
        "response": record.detail.pointer("/outcome/error/type").map(|kind| json!({"error": kind})),
    }))
}
