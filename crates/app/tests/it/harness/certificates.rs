//! A folder with an authority, a server's and a client's certificate, under the names that nbdkit,
//! libnbd and qemu expect.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::Scratch;

/// The name in the client's certificate.
pub(crate) const CLIENT_NAME: &str = "client-one";

/// The folder, and what is in it.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Makes them, once per scratch folder.
    pub(crate) fn of(scratch: &Scratch) -> Self {
        let made = Self { folder: scratch.join("certificates") };
        if made.folder.exists() {
            return made;
        }
        let authority = authority();
        made.write_client(CLIENT_NAME, &authority);
        made.write_leaf("server", "localhost", ExtendedKeyUsagePurpose::ServerAuth, &authority);
        made
    }

    /// The same for clients of these names: a folder for each of them, by one authority with the
    /// server's of [`of`](Self::of).
    pub(crate) fn of_clients(scratch: &Scratch, names: &[&str]) -> Vec<Self> {
        let server = Self { folder: scratch.join("certificates") };
        let authority = authority();
        server.write_client(CLIENT_NAME, &authority);
        server.write_leaf("server", "localhost", ExtendedKeyUsagePurpose::ServerAuth, &authority);
        let made = names.iter().map(|name| {
            let made = Self { folder: scratch.join(format!("certificates-{name}")) };
            made.write_client(name, &authority);
            made
        });
        made.collect()
    }

    fn write_client(&self, name: &str, authority: &CertifiedIssuer<'_, KeyPair>) {
        std::fs::create_dir_all(&self.folder).expect("a folder in scratch");
        self.write("ca-cert.pem", &authority.pem());
        self.write_leaf("client", name, ExtendedKeyUsagePurpose::ClientAuth, authority);
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).expect("write a file to scratch");
    }

    fn write_leaf(
        &self,
        role: &str,
        name: &str,
        purpose: ExtendedKeyUsagePurpose,
        authority: &CertifiedIssuer<'_, KeyPair>,
    ) {
        let names = vec![name.to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("plain names");
        params.distinguished_name.push(DnType::CommonName, name);
        // qemu insists on the second, which only RSA would need.
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().expect("a key");
        let leaf = params.signed_by(&key, authority).expect("a certificate");
        self.write(&format!("{role}-cert.pem"), &leaf.pem());
        self.write(&format!("{role}-key.pem"), &key.serialize_pem());
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "Evenkeel tests");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"))
        .expect("a certificate")
}
