//! The tests' own certificate authority, and clients that trust what they are told to.

use std::sync::{Arc, OnceLock};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Signs the certificates of the tests' hosts.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub pem: String,
}

pub fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(Authority::new)
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // A name of its own: OpenSSL takes a leaf for self-signed where both have the same.
        params.distinguished_name.push(rcgen::DnType::CommonName, "The tests' authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(issuer.der());
        let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        Self { issuer, pem }
    }

    pub fn acceptor(&self, name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.into()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

fn client(pem: &str) -> ClientConfig {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap));
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth()
}

/// TLS to `name` over the stream, trusting the certificates in `pem`.
pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    name: &str,
    pem: &str,
) -> std::io::Result<TlsStream<S>> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(client(pem))).connect(name, stream).await
}

/// The same without a server's name in the hello.
pub async fn connect_unnamed<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    name: &str,
    pem: &str,
) -> std::io::Result<TlsStream<S>> {
    let mut config = client(pem);
    config.enable_sni = false;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
