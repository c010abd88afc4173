//! `--backend`: which model stands behind which backend of a policy.

use std::path::Path;

use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_sim::calibrate;
use evenkeel_sim::device::hdd;
use evenkeel_sim::device::spec::{ConstantSpec, DeviceSpec, DriveSource, HddSpec, SsdDevice};
use evenkeel_sim::device::ssd::SsdSpec;
use evenkeel_sim::forecast::{EXPLAINED, Recorded, Under, explain};
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::scenario::BackendDevice;

use crate::advise::observed::Observed;
use crate::advise::{playing, routes, storage};
use crate::exit::Exit;
use crate::simulate::file::parse_device;
use crate::terminal;
use crate::trace::input::TraceFile;
use crate::units::{parse_byte_rate, parse_duration, parse_size};

/// What `--backend` says, for the policies that it is about.
#[derive(Clone, Debug, Default)]
pub(super) struct Models {
    common: Option<DeviceSpec>,
    named: Vec<(String, DeviceSpec)>,
}

impl Models {
    /// Reads them. A name before an `=` is that of a backend of one of the policies.
    ///
    /// # Errors
    /// [`Exit::Usage`] for a model that cannot be read, [`Exit::Invalid`] for a file with mistakes.
    pub(super) fn read(models: &[String], policies: &[&Policy]) -> anyhow::Result<Self> {
        let mut read = Self::default();
        for written in models {
            let backends = policies.iter().flat_map(|policy| &policy.backends);
            let named = written
                .split_once('=')
                .filter(|(name, _)| backends.clone().any(|backend| backend.name == *name));
            match named {
                Some((name, written)) => read.named.push((name.to_owned(), model(written)?)),
                None if read.common.is_some() => {
                    let message = format!(
                        "--backend {written}: a second model for every backend; say for which one \
                         it is with NAME= before it"
                    );
                    return Err(Exit::Usage.because(message));
                }
                None => read.common = Some(model(written)?),
            }
        }
        Ok(read)
    }

    /// The storage that explains what a gate recorded while it only looked.
    ///
    /// # Errors
    /// [`Exit::Usage`] for a recording that does not tell, with the remedy.
    pub(super) fn of_recording(trace: &TraceFile) -> anyhow::Result<Self> {
        let refuse = |why: String| {
            let message = format!("the storage has to be named with --backend MODEL: {why}");
            Exit::Usage.because(message)
        };
        let observed = Observed::read(trace).map_err(|error| refuse(error.to_string()))?;
        if observed.policy.mode == Mode::Enforce {
            return Err(refuse("a recording under an enforced policy does not show it".to_owned()));
        }
        observed.refuse_what_tells_nothing().map_err(|error| refuse(error.to_string()))?;
        let (sources, records) = (&observed.sources, &observed.records[..]);
        let recorded = Recorded { sources, records, length: observed.length };
        let routes = routes(&observed, &observed.policy)?;
        let present = Under { policy: &observed.policy, routes: &routes };
        let explained = playing(|observe| explain(&recorded, present, observe));
        let mut models = Self::default();
        for found in explained.map_err(|error| refuse(error.to_string()))? {
            let (backend, percent) = (&found.backend, found.misses * 100.0);
            let words = storage::words(&found.device);
            terminal::say(&format!(
                "storage {backend}: {words}; what was recorded comes out on it within \
                 {percent:.1} %"
            ));
            if !found.misses.is_finite() {
                terminal::say("  too few requests went there to tell");
            } else if !found.is_told_apart {
                terminal::say("  the load was always the same, so that others would do as well");
            } else if found.misses > EXPLAINED {
                terminal::say("  that is not near: the plan may be off by as much and more");
            }
            models.named.push((found.backend, found.device));
        }
        Ok(models)
    }

    /// A device for each backend of the policy that is one.
    ///
    /// # Errors
    /// [`Exit::Usage`] for a backend without a model.
    pub(super) fn devices(&self, policy: &Policy) -> anyhow::Result<Vec<BackendDevice>> {
        // A volume has its members for devices.
        let backends = policy.backends.iter().filter(|backend| !backend.is_volume());
        backends.map(|backend| self.device(&backend.name)).collect()
    }

    fn device(&self, name: &str) -> anyhow::Result<BackendDevice> {
        let own = self.named.iter().find(|(one, _)| one == name).map(|(_, device)| device);
        let device = own.or(self.common.as_ref()).ok_or_else(|| {
            Exit::Usage
                .because(format!("backend {name:?} has no model; add --backend {name}=MODEL"))
        })?;
        let (backend, device) = (name.to_owned(), device.clone());
        Ok(BackendDevice { backend, device, link: LinkSpec::default() })
    }
}

fn model(written: &str) -> anyhow::Result<DeviceSpec> {
    if let Some(name) = written.strip_prefix("hdd:") {
        let drive = DriveSource::BuiltIn(name.to_owned());
        return Ok(DeviceSpec::Hdd(HddSpec { drive, order: hdd::Policy::Sptf }));
    }
    if let Some(name) = written.strip_prefix("ssd:") {
        let drive = DriveSource::BuiltIn(name.to_owned());
        return Ok(DeviceSpec::Ssd(SsdDevice { drive, precondition: None }));
    }
    let path = Path::new(written);
    if !path.exists() && written.contains('=') {
        return constant(written).map_err(|reason| {
            let message = format!(
                "--backend {written}: {reason}; write it like rate=100MB/s,fixed=1ms,servers=8"
            );
            Exit::Usage.because(message)
        });
    }
    file(path)
}

/// `rate=100MB/s,fixed=1ms,servers=8,size=1TiB`, in any order, each once at most.
fn constant(written: &str) -> Result<DeviceSpec, String> {
    let mut spec = ConstantSpec::default();
    let mut seen: Vec<&str> = Vec::new();
    for part in written.split(',') {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("`{part}` has no `=`"))?;
        if seen.contains(&key) {
            return Err(format!("`{key}` stands there twice"));
        }
        seen.push(key);
        let text = |error: crate::units::UnitError| error.to_string();
        match key {
            "rate" => spec.rate_bytes = parse_byte_rate(value).map_err(text)?,
            "fixed" => spec.fixed = parse_duration(value).map_err(text)?,
            "size" => spec.size_bytes = parse_size(value).map_err(text)?,
            "servers" => {
                spec.servers = value
                    .parse()
                    .ok()
                    .filter(|servers| *servers > 0)
                    .ok_or_else(|| format!("`{value}` is no number of servers"))?;
            }
            _ => return Err(format!("`{key}` is none of rate, fixed, servers, size")),
        }
    }
    Ok(DeviceSpec::Constant(spec))
}

/// What `evenkeel calibrate` wrote, the figures of a drive, or a device as in a scenario.
fn file(path: &Path) -> anyhow::Result<DeviceSpec> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Exit::Usage.because(format!(
            "--backend {}: it is neither a model nor a file that can be read ({error})",
            path.display()
        ))
    })?;
    if let Ok(model) = calibrate::Model::parse(&text) {
        return Ok(DeviceSpec::Measured(model.device));
    }
    if let Ok(figures) = hdd::Parameters::parse(&text) {
        let drive = DriveSource::Figures(Box::new(figures));
        return Ok(DeviceSpec::Hdd(HddSpec { drive, order: hdd::Policy::Sptf }));
    }
    if let Ok(figures) = SsdSpec::parse(&text) {
        let drive = DriveSource::Figures(Box::new(figures));
        return Ok(DeviceSpec::Ssd(SsdDevice { drive, precondition: None }));
    }
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    parse_device(&text, &path.display().to_string(), folder)
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;

    use super::*;

    #[test]
    fn a_simple_model_reads_as_it_is_written() {
        let spec = ConstantSpec {
            rate_bytes: 100_000_000,
            fixed: Span::from_millis(1),
            servers: 8,
            ..ConstantSpec::default()
        };
        let read = constant("fixed=1ms,rate=100MB/s,servers=8").unwrap();
        assert_eq!(read, DeviceSpec::Constant(spec));
        for bad in ["rate=fast", "speed=1", "rate", "servers=0", "fixed=1ms,fixed=2ms", ""] {
            assert!(constant(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_backend_needs_one_model() {
        let text = "[[backend]]\nname=\"a\"\nmemory=true\n[[backend]]\nname=\"b\"\nmemory=true\n\
                    [[export]]\nname=\"x\"\nbackend=\"a\"\nsize=\"1 MiB\"\nlisten=[\"unix:s\"]\n";
        let text = text.replace("listen=[\"unix:s\"]\n", "");
        let policy = crate::config::parse(&format!("listen=[\"unix:s\"]\n{text}"), "p").unwrap();
        let devices = |models: &[&str]| {
            let models: Vec<String> = models.iter().map(|&model| model.to_owned()).collect();
            Models::read(&models, &[&policy])?.devices(&policy)
        };
        assert_eq!(devices(&["fixed=1ms"]).unwrap().len(), 2);
        assert_eq!(devices(&["a=fixed=1ms", "fixed=2ms"]).unwrap().len(), 2);
        let error = devices(&["a=fixed=1ms"]).unwrap_err();
        assert!(error.to_string().contains("--backend b=MODEL"), "{error}");
        assert_eq!(Exit::of(&devices(&["fixed=1ms", "fixed=2ms"]).unwrap_err()), Exit::Usage);
    }
}
