//! Where a client connects, in the spelling of each client.

use std::path::PathBuf;

use super::certificates::Certificates;

/// A server and one of its exports.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) export: String,
    /// Set if clients must use TLS.
    pub(crate) certificates: Option<Certificates>,
}

/// A socket.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Unix(PathBuf),
    /// A port of 127.0.0.1.
    Tcp(u16),
}

impl Target {
    /// The URI, as nbdinfo, nbdcopy, nbdfuse and fio read it.
    pub(crate) fn uri(&self) -> String {
        let scheme = if self.certificates.is_some() { "nbds" } else { "nbd" };
        let export = &self.export;
        let (base, mut query) = match &self.address {
            Address::Unix(path) => {
                (format!("{scheme}+unix:///{export}"), vec![format!("socket={}", path.display())])
            }
            Address::Tcp(port) => (format!("{scheme}://127.0.0.1:{port}/{export}"), vec![]),
        };
        if let Some(certificates) = &self.certificates {
            query.push(format!("tls-certificates={}", certificates.folder().display()));
        }
        if query.is_empty() { base } else { format!("{base}?{}", query.join("&")) }
    }

    /// What nbdfuse takes. It lets no URI name files with certificates, and so nbdkit as its child
    /// speaks TLS for it.
    pub(crate) fn nbdfuse_source(&self) -> Vec<String> {
        let Some(certificates) = &self.certificates else {
            return vec![self.uri()];
        };
        let plain_uri = self.uri().split('?').next().map(str::to_owned);
        let uri = format!("uri={}", plain_uri.expect("split gives one part"));
        let certificates = format!("tls-certificates={}", certificates.folder().display());
        let bridge = ["[", "nbdkit", "--exit-with-parent", "nbd"];
        let mut words: Vec<String> = bridge.map(str::to_owned).into();
        words.extend([uri, certificates, "]".to_owned()]);
        words
    }

    /// The same server without naming an export, to list them.
    pub(crate) fn server_uri(&self) -> String {
        Self { export: String::new(), ..self.clone() }.uri()
    }

    /// What qemu's `--image-opts` takes.
    pub(crate) fn qemu_options(&self) -> String {
        let place = match &self.address {
            Address::Unix(path) => format!("server.type=unix,server.path={}", path.display()),
            Address::Tcp(port) => {
                format!("server.type=inet,server.host=127.0.0.1,server.port={port}")
            }
        };
        let tls = if self.certificates.is_some() { ",tls-creds=tls0" } else { "" };
        format!("driver=nbd,{place},export={}{tls}", self.export)
    }

    /// The same for a target of qemu-img convert, which wants the format on top.
    pub(crate) fn qemu_target_options(&self) -> String {
        let protocol = self.qemu_options().replace(',', ",file.");
        format!("driver=raw,file.{protocol}")
    }

    /// Arguments that define the TLS credentials named in [`Target::qemu_options`].
    pub(crate) fn qemu_objects(&self) -> Vec<String> {
        let credentials = |certificates: &Certificates| {
            let folder = certificates.folder().display();
            vec!["--object".into(), format!("tls-creds-x509,id=tls0,endpoint=client,dir={folder}")]
        };
        self.certificates.as_ref().map_or_else(Vec::new, credentials)
    }
}

impl Address {
    /// Whether something accepts connections there.
    pub(crate) fn answers(&self) -> bool {
        match self {
            Self::Unix(path) => std::os::unix::net::UnixStream::connect(path).is_ok(),
            Self::Tcp(port) => std::net::TcpStream::connect(("127.0.0.1", *port)).is_ok(),
        }
    }
}
