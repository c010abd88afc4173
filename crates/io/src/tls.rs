//! TLS by rustls: configurations from PEM files, and the names in a client's certificate.

use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::policy::{Address, ListenerTls, UpstreamTls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A file that does not hold what it should.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {why}")]
pub(crate) struct TlsError {
    file: String,
    why: String,
}

fn at<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> TlsError + '_ {
    move |error| TlsError { file: path.display().to_string(), why: error.to_string() }
}

/// The acceptor of a listener.
pub(crate) fn acceptor(tls: &ListenerTls) -> Result<TlsAcceptor, TlsError> {
    let builder = ServerConfig::builder();
    let builder = match &tls.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier = WebPkiClientVerifier::builder(Arc::new(authorities(path)?)).build();
            builder.with_client_cert_verifier(verifier.map_err(at(path))?)
        }
    };
    let config = builder
        .with_single_cert(chain(&tls.certificate)?, key(&tls.key)?)
        .map_err(at(&tls.certificate))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The connector towards an upstream, and the name that its certificate must carry.
pub(crate) fn connector(
    tls: &UpstreamTls,
    address: &Address,
) -> Result<(TlsConnector, ServerName<'static>), TlsError> {
    let builder = ClientConfig::builder().with_root_certificates(authorities(&tls.authority)?);
    let config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, path)) => builder
            .with_client_auth_cert(chain(certificate)?, key(path)?)
            .map_err(at(certificate))?,
    };
    let name = match (&tls.server_name, address) {
        (Some(name), _) => name.clone(),
        (None, Address::Tcp(host)) => host_of(host).to_owned(),
        (None, Address::Unix(_)) => "localhost".to_owned(),
    };
    let server = ServerName::try_from(name.clone()).map_err(|error| TlsError {
        file: format!("server name {name:?}"),
        why: format!("{error}; set the upstream's TLS server name"),
    })?;
    Ok((TlsConnector::from(Arc::new(config)), server))
}

/// The host of `host:port` or `[v6]:port`.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Every name in a client's certificate: subject alternative names, then common names. The
/// certificate was verified before.
pub(crate) fn names_of(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let alternative = parsed.subject_alternative_name().ok().flatten();
    let mut names: Vec<String> = alternative
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
                Some((*name).to_owned())
            }
            _ => None,
        })
        .collect();
    let common = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    names.extend(common.map(str::to_owned));
    names
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(at(path))?
        .collect::<Result<_, _>>()
        .map_err(at(path))?;
    if chain.is_empty() {
        return Err(at(path)("no certificate in this file; it must be PEM"));
    }
    Ok(chain)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(at(path))
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(path)? {
        roots.add(certificate).map_err(at(path))?;
    }
    Ok(roots)
}
