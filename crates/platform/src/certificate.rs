//! A certificate of this host that signs itself, for platforms that are started with TLS.

use crate::folder::write_private;
use std::fs::{Permissions, set_permissions};
use std::io::{Error, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The files with a certificate and its key, in PEM.
#[derive(Debug)]
pub struct Certificate {
    /// The certificate's file, which every component may read.
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
        write_private(&certificate, &made.cert.pem())?;
        set_permissions(&certificate, Permissions::from_mode(0o644))?;
        write_private(&key, &made.signing_key.serialize_pem())?;
        Ok(Certificate { certificate, key })
    }
}
