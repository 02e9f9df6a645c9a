//! Whom the proxy trusts: for its own TLS with hosts, and as text for programs in a cell whose tunnels it does not open.
//!
//! Answers to: `proxy`. Must not: trust anybody whom the host does not.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::{CertificateDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};

use crate::authority;
use crate::dial::provider;

/// Whom the proxy trusts where it opens TLS.
#[derive(Debug, Clone, Default)]
pub enum Roots {
    /// The host's own store, as it was when it was first needed.
    #[default]
    Platform,
    /// These certificates only, in PEM.
    Pem(String),
}

/// The configuration of verified TLS to hosts; nothing where nobody is trusted.
pub(crate) fn trust(roots: &Roots) -> Option<Arc<ClientConfig>> {
    static PLATFORM: OnceLock<Option<Arc<ClientConfig>>> = OnceLock::new();
    match roots {
        Roots::Platform => PLATFORM.get_or_init(|| config(platform().to_vec())).clone(),
        Roots::Pem(pem) => config(CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok).collect()),
    }
}

/// The same as text.
pub(crate) fn pem(roots: &Roots) -> String {
    static PLATFORM: OnceLock<String> = OnceLock::new();
    match roots {
        Roots::Platform => PLATFORM.get_or_init(|| platform().iter().map(authority::pem).collect()).clone(),
        Roots::Pem(pem) => pem.clone(),
    }
}

/// The host's store, read once: it takes milliseconds, and every session asks.
fn platform() -> &'static [CertificateDer<'static>] {
    static PLATFORM: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    PLATFORM.get_or_init(|| rustls_native_certs::load_native_certs().certs)
}

fn config(certificates: Vec<CertificateDer<'static>>) -> Option<Arc<ClientConfig>> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(certificates);
    if store.is_empty() {
        return None;
    }
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().ok()?;
    let mut config = builder.with_root_certificates(store).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(Arc::new(config))
}
