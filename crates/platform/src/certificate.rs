//! A certificate of this host that signs itself, for platforms that are started with TLS.

use std::fs::OpenOptions;
use std::io::{Error, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The files with a certificate and its key, in PEM.
#[derive(Debug)]
pub struct Certificate {
    /// The certificate's file.
    pub certificate: PathBuf,
    /// The key's file, which nobody else may read.
    pub key: PathBuf,
}

impl Certificate {
    /// Makes one of `localhost` and 127.0.0.1, and writes its files into that folder.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn make(folder: &Path) -> Result<Certificate> {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).map_err(Error::other)?;
        let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
        for (path, text) in [(&certificate, made.cert.pem()), (&key, made.signing_key.serialize_pem())] {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
            file.write_all(text.as_bytes())?;
        }
        Ok(Certificate { certificate, key })
    }
}
