//! A client as the guest has it: CPython's `urllib` with nothing but the usual proxy variables, and strict certificates.

mod support;

use std::process::Stdio;

use support::{Host, Setting, ok, rule, secret};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;

const PROGRAM: &str = r#"
import ssl, sys, urllib.error, urllib.request
plain, secure = sys.argv[1:]
context = ssl.create_default_context()
context.verify_flags |= ssl.VERIFY_X509_STRICT
opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
def show(url, **more):
    try:
        with opener.open(urllib.request.Request(url, **more), timeout=30) as answer:
            print(answer.status, answer.read().decode())
    except urllib.error.HTTPError as fault:
        print(fault.code, fault.read().decode().strip())
    except urllib.error.URLError as fault:
        print(type(fault.reason).__name__, fault.reason)
show(f'http://a.test:{plain}/v1/x')
show(f'http://a.test:{plain}/v2/x')
show(f'http://b.test:{plain}/')
show(f'https://a.test:{secure}/v1/x')
show(f'https://a.test:{secure}/v1/x', method='DELETE')
show(f'https://b.test:{secure}/')
"#;

/// What a tier puts into the cell: a port there that leads to the proxy.
async fn relay(proxy: ringfence_egress::Proxy) -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind((support::LOOPBACK, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut served = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let proxy = proxy.clone();
            served.spawn(async move { proxy.serve_stream(stream).await });
        }
    });
    (port, tasks)
}

#[tokio::test]
async fn pythons_own_client_works_unchanged() {
    let (plain, secure) = (Host::plain(ok).await, Host::secure("a.test", ok).await);
    let mut setting = Setting::new(vec![rule("a.test", &[plain.port, secure.port], &["GET"], &["/v1/*"])]);
    setting.secrets = vec![secret("example_key", "a.test", &["/*"], "canary")];
    let stage = setting.stage();
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("ca.pem");
    std::fs::write(&trusted, stage.proxy.ca_pem().unwrap()).unwrap();
    let (port, _tasks) = relay(stage.proxy.clone()).await;
    let address = format!("http://127.0.0.1:{port}");
    let output = Command::new("python3")
        .args(["-I", "-c", PROGRAM, &plain.port.to_string(), &secure.port.to_string()])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("http_proxy", &address)
        .env("https_proxy", &address)
        .env("SSL_CERT_FILE", &trusted)
        .stderr(Stdio::inherit())
        .output()
        .await
        .expect("python3 runs");
    let (p, s) = (plain.port, secure.port);
    let want = [
        "200 hello".to_owned(),
        format!("403 ringfence: policy does not allow path `/v2/x` at `a.test:{p}`; add it to the rule's `paths`"),
        format!("403 ringfence: policy does not allow `b.test:{p}`; add the host and port to `network.allow`"),
        "200 hello".to_owned(),
        format!("403 ringfence: policy does not allow method `DELETE` at `a.test:{s}`; add it to the rule's `methods`"),
        "OSError Tunnel connection failed: 403 Forbidden".to_owned(),
    ];
    let found = String::from_utf8(output.stdout).unwrap();
    assert_eq!(found.lines().collect::<Vec<_>>(), want);
    assert!(secure.heads.lock().unwrap()[0].contains("authorization: Bearer canary\r\n"));
    assert!(!plain.heads.lock().unwrap()[0].contains("canary"));
}
