//! Who clients say that they are over TLS: one certificate for all, or one for each of them.

use crate::config::{Population, Tls};
use crate::context::Context;
use crate::plan::{ClientIdentity, Identities, PopulationPlan, Template};
use plimsoll_template::Variables;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// What is wrong with a file.
pub(super) struct Trouble {
    message: String,
    help: Option<&'static str>,
}

impl Trouble {
    /// Reports it, and that so many other files have some as well.
    pub(super) fn report(self, others: usize, path: &str, context: &mut Context<'_>) {
        let further = match others {
            0 => String::new(),
            1 => " (and 1 other file)".to_owned(),
            _ => format!(" (and {others} other files)"),
        };
        let message = format!("{}{further}", self.message);
        match self.help {
            Some(help) => context.error_with_help(path, message, help),
            None => context.error(path, message),
        }
    }
}

/// The certificates of devices and subscribers; the error was reported.
pub(super) fn resolve(
    tls: &Tls,
    population: &Population,
    context: &mut Context<'_>,
) -> Result<Identities, ()> {
    let subscribers = population.subscribers.count();
    let PopulationPlan { first_device, first_subscriber, .. } = context.population();
    let of_devices = Clients {
        first: first_device,
        paths: ["connection.tls.certificate", "connection.tls.key"],
        written: [&tls.certificate, &tls.key],
        variable: "device",
        count: population.devices,
    };
    let of_subscribers = Clients {
        first: first_subscriber,
        paths: ["connection.tls.subscriber_certificate", "connection.tls.subscriber_key"],
        written: [&tls.subscriber_certificate, &tls.subscriber_key],
        variable: "subscriber",
        count: subscribers,
    };
    let (devices, own) = (of_devices.resolve(context), of_subscribers.resolve(context));
    let (devices, own) = (devices?, own?);
    let each = tls.certificate.as_ref().is_some_and(|file| file.contains("{device}"));
    if each && own.is_empty() && subscribers > 0 {
        context.error_with_help(
            "connection.tls.certificate",
            "each device has a certificate of its own, and subscribers have none",
            "add `subscriber_certificate: FILE` and `subscriber_key: FILE`; `{subscriber}` may stand in them",
        );
        return Err(());
    }
    let subscribers = if own.is_empty() { Arc::clone(&devices) } else { own };
    Ok(Identities { devices, subscribers, first_device, first_subscriber })
}

/// Devices or subscribers, and the two keys of theirs.
struct Clients<'a> {
    paths: [&'static str; 2],
    written: [&'a Option<String>; 2],
    variable: &'static str,
    first: u32,
    count: u32,
}

impl Clients<'_> {
    /// None, one for all, or one for each.
    fn resolve(&self, context: &mut Context<'_>) -> Result<Arc<[ClientIdentity]>, ()> {
        let [certificate_path, key_path] = self.paths;
        let name = |path: &'static str| path.rsplit('.').next().unwrap_or(path);
        let (certificate, key) = match self.written {
            [Some(certificate), Some(key)] => (certificate, key),
            [None, None] => return Ok(Arc::from([])),
            [Some(_), None] => {
                let help = format!("add `{}: FILE`", name(key_path));
                let message = "a certificate without its private key proves nothing";
                context.error_with_help(certificate_path, message, help);
                return Err(());
            }
            [None, Some(_)] => {
                let help = format!("add `{}: FILE`", name(certificate_path));
                context.error_with_help(key_path, "the certificate of this key is missing", help);
                return Err(());
            }
        };
        let chains = self.read(certificate, certificate_path, context, certificates);
        let keys = self.read(key, key_path, context, private_key);
        let (chains, keys) = (chains.ok_or(())?, keys.ok_or(())?);
        if chains.len() != keys.len() {
            context.error_with_help(
                certificate_path,
                format!("`{certificate}` and `{key}` are not of the same clients"),
                format!("write `{{{}}}` in both or in neither", self.variable),
            );
            return Err(());
        }
        let pairs = chains.into_iter().zip(keys);
        Ok(pairs.map(|(chain, key)| ClientIdentity { chain, key: Arc::new(key) }).collect())
    }

    /// What the file holds, or the file of each client; the error was reported.
    fn read<T>(
        &self,
        text: &str,
        path: &str,
        context: &mut Context<'_>,
        read: impl Fn(&str, &Context<'_>) -> Result<T, Trouble>,
    ) -> Option<Vec<T>> {
        let template = Template::compile(text, &[self.variable])
            .map_err(|error| context.template_error(path, error))
            .ok()?;
        let name_of = |number: u32| {
            let variables = Variables { device: number, subscriber: number, ..Variables::default() };
            let mut name = Vec::new();
            template.render(&variables, &mut || 0, &mut name);
            String::from_utf8_lossy(&name).into_owned()
        };
        let files =
            if name_of(0) == name_of(1) { 0..1 } else { self.first..self.first.saturating_add(self.count) };
        let (mut found, mut first, mut troubles) = (Vec::new(), None, 0);
        for number in files {
            match read(&name_of(number), context) {
                Ok(content) => found.push(content),
                Err(trouble) => {
                    first.get_or_insert(trouble);
                    troubles += 1;
                }
            }
        }
        match first {
            None => Some(found),
            Some(trouble) => {
                trouble.report(troubles - 1, path, context);
                None
            }
        }
    }
}

/// The certificates of a file, at least one.
pub(super) fn certificates(
    file: &str,
    context: &Context<'_>,
) -> Result<Vec<CertificateDer<'static>>, Trouble> {
    let text = text_of(file, context)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Trouble {
            message: format!("`{file}` holds no certificate"),
            help: Some(
                "a certificate in PEM begins with `-----BEGIN CERTIFICATE-----`; one in DER is turned into PEM by \
                 `openssl x509 -inform der -in FILE`",
            ),
        }),
        Err(error) => Err(Trouble { message: format!("`{file}` is malformed: {error}"), help: None }),
    }
}

fn private_key(file: &str, context: &Context<'_>) -> Result<PrivateKeyDer<'static>, Trouble> {
    let text = text_of(file, context)?;
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| Trouble {
        message: format!("`{file}` holds no private key that can be read"),
        help: Some("it must be in PEM and not encrypted: `openssl pkey -in FILE` takes the password off"),
    })
}

fn text_of(file: &str, context: &Context<'_>) -> Result<String, Trouble> {
    (context.environment.profile)(file)
        .map_err(|reason| Trouble { message: format!("cannot read `{file}`: {reason}"), help: None })
}
