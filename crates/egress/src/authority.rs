//! The session's certificate authority: trusted inside one cell, and nowhere else.
//!
//! Answers to: `tunnel`, for a server's side of TLS with the guest. Must not: write its key anywhere, or make a
//! certificate for a host that the rules don't name: only `tunnel` asks, after they were.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::dial::provider;
use crate::target::Host;

/// The most hosts whose certificates are kept; a wildcard rule covers any number.
const KEPT: usize = 256;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate could not be made.
#[derive(Debug, thiserror::Error)]
#[error("no certificate could be made")]
pub(crate) struct CertificateFault;

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pem: String,
    /// One for all hosts: it proves the same party in each case.
    leaf: KeyPair,
    made: Mutex<HashMap<Host, Arc<ServerConfig>>>,
}

impl Authority {
    pub(crate) fn new() -> Result<Self, CertificateFault> {
        Self::make().map_err(|_| CertificateFault)
    }

    fn make() -> Result<Self, rcgen::Error> {
        let mut params = params(Vec::new(), "Ringfence session")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let pem = pem(issuer.der());
        Ok(Self { issuer, pem, leaf: KeyPair::generate()?, made: Mutex::default() })
    }

    /// The certificate that is to be trusted inside the cell.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A server's side of TLS for the host.
    pub(crate) fn server(&self, host: &Host) -> Result<Arc<ServerConfig>, CertificateFault> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = made.get(host) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(self.config(host)?);
        if made.len() >= KEPT {
            made.clear();
        }
        made.insert(host.clone(), Arc::clone(&config));
        Ok(config)
    }

    fn config(&self, host: &Host) -> Result<ServerConfig, CertificateFault> {
        let certificate = self.certificate(host).map_err(|_| CertificateFault)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.leaf.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate], key))
            .map_err(|_| CertificateFault)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn certificate(&self, host: &Host) -> Result<CertificateDer<'static>, rcgen::Error> {
        let name = match host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        };
        let mut params = params(vec![name], "Ringfence egress")?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(&self.leaf, &self.issuer)?.into())
    }
}

/// WHY: the common name is never the host's: it holds 64 characters at most, and nobody may read it any more.
fn params(names: Vec<String>, common: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, common);
    let now = SystemTime::now();
    params.not_before = (now - DAY).into();
    params.not_after = (now + 365 * DAY).into();
    Ok(params)
}

/// The certificate as text.
pub(crate) fn pem(certificate: &CertificateDer<'_>) -> String {
    let text = STANDARD.encode(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for (count, letter) in text.chars().enumerate() {
        if count > 0 && count % 64 == 0 {
            pem.push('\n');
        }
        pem.push(letter);
    }
    pem.push_str("\n-----END CERTIFICATE-----\n");
    pem
}
