//! Devices of a scenario file: which model, how quick, and the way to it.

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_core::time::Span;
use evenkeel_sim::calibrate;
use evenkeel_sim::device::array::Layout;
use evenkeel_sim::device::hdd;
use evenkeel_sim::device::spec::{
    ArraySpec, ConstantSpec, DelaySpec, DeviceSpec, DriveSource, HddSpec, NbdkitService, RateSpec,
    SsdDevice,
};
use evenkeel_sim::device::ssd::{Precondition, SsdSpec};
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::scenario::BackendDevice;
use toml::Spanned;

use super::{Value, or};
use crate::config::diagnostic::Diagnostics;
use crate::config::fields::{Fields, list};
use crate::config::values;

/// The models, by their keys.
const MODELS: [&str; 7] = ["constant", "rate", "delay", "hdd", "ssd", "calibrated", "array"];

/// Devices that one array may have, those of arrays in it included.
const MEMBERS_MAX: u64 = 1024;

/// A stripe unit of customary size.
const STRIPE_UNIT_BYTES: u64 = 64 << 10;

/// A device whose figures may still be in a file.
#[derive(Clone, Debug)]
pub(super) enum Model {
    Ready(DeviceSpec),
    Hdd { figures: Spanned<PathBuf>, order: hdd::Policy },
    Ssd { figures: Spanned<PathBuf>, precondition: Option<Precondition> },
    Calibrated { file: Spanned<PathBuf> },
    Array { layout: Layout, count: u32, member: Box<Self> },
}

/// One `[[device]]` as written.
pub(super) struct FileDevice {
    backend: String,
    link: LinkSpec,
    model: Model,
}

/// One `[[device]]`.
pub(super) fn read(
    fields: &mut Fields<'_, '_>,
    out: &mut Diagnostics,
) -> Option<Spanned<FileDevice>> {
    let span = fields.span();
    let backend = fields.required("backend", values::text, out);
    let link = or(fields.optional("link", link, out), LinkSpec::default());
    let model = model(fields, out);
    let (backend, model) = (backend?.into_inner(), model?);
    Some(Spanned::new(span, FileDevice { backend, link, model }))
}

impl FileDevice {
    /// The device, with the figures that it names read from `folder`.
    pub(super) fn load(self, folder: &Path, out: &mut Diagnostics) -> Option<BackendDevice> {
        let device = self.model.load(folder, out)?;
        Some(BackendDevice { backend: self.backend, device, link: self.link })
    }
}

impl Model {
    fn load(self, folder: &Path, out: &mut Diagnostics) -> Option<DeviceSpec> {
        match self {
            Self::Ready(spec) => Some(spec),
            Self::Hdd { figures, order } => {
                let parse = |text: &str| hdd::Parameters::parse(text).map_err(|e| e.to_string());
                let drive =
                    DriveSource::Figures(Box::new(figures_of(&figures, folder, parse, out)?));
                Some(DeviceSpec::Hdd(HddSpec { drive, order }))
            }
            Self::Ssd { figures, precondition } => {
                let parse = |text: &str| SsdSpec::parse(text).map_err(|e| e.to_string());
                let drive =
                    DriveSource::Figures(Box::new(figures_of(&figures, folder, parse, out)?));
                Some(DeviceSpec::Ssd(SsdDevice { drive, precondition }))
            }
            Self::Calibrated { file } => {
                let parse = |text: &str| calibrate::Model::parse(text).map_err(|e| e.to_string());
                let model = figures_of(&file, folder, parse, out)?;
                Some(DeviceSpec::Measured(model.device))
            }
            Self::Array { layout, count, member } => {
                let member = member.load(folder, out)?;
                let members = vec![member; count as usize];
                Some(DeviceSpec::Array(ArraySpec { layout, members }))
            }
        }
    }

    /// Devices that are no arrays.
    fn leaves(&self) -> u64 {
        match self {
            Self::Array { count, member, .. } => u64::from(*count).saturating_mul(member.leaves()),
            Self::Ready(_) | Self::Hdd { .. } | Self::Ssd { .. } | Self::Calibrated { .. } => 1,
        }
    }
}

/// A drive's figures, from its file.
fn figures_of<P>(
    file: &Spanned<PathBuf>,
    folder: &Path,
    parse: impl FnOnce(&str) -> Result<P, String>,
    out: &mut Diagnostics,
) -> Option<P> {
    let path = folder.join(file.get_ref());
    let text = fs::read_to_string(&path).map_err(|error| error.to_string());
    let refuse = |error: String| {
        let message = format!("no figures in {}: {error}", path.display());
        out.error(file.span(), message, "name a file of the form that docs/simulate.md tells");
    };
    text.and_then(|text| parse(&text)).map_err(refuse).ok()
}

/// The one model that a table names.
fn model(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<Model> {
    let ready = [
        fields.optional("constant", constant, out),
        fields.optional("rate", rate, out),
        fields.optional("delay", delay, out),
    ];
    let ready = ready.into_iter().flatten();
    let ready = ready.map(|one| Spanned::new(one.span(), Model::Ready(one.into_inner())));
    let others = [
        fields.optional("hdd", hard_disk, out),
        fields.optional("ssd", flash, out),
        fields.optional("calibrated", calibrated, out),
        fields.optional("array", array, out),
    ];
    let mut named = ready.chain(others.into_iter().flatten());
    match (named.next(), named.next()) {
        (Some(only), None) => Some(only.into_inner()),
        (Some(_), Some(second)) => {
            out.error(second.span(), "a second model for one device", "keep one of them");
            None
        }
        (None, _) => {
            // A model that was written and is wrong has its own error already.
            if !MODELS.iter().any(|key| fields.has(key)) {
                let remedy = format!("add one of {}", list(&MODELS));
                out.error(fields.span(), "this device has no model", remedy);
            }
            None
        }
    }
}

fn hard_disk(value: &Value<'_>, out: &mut Diagnostics) -> Option<Model> {
    let mut fields = Fields::of("`hdd`", value, out)?;
    let order = or(fields.optional("order", order, out), hdd::Policy::default());
    let drive = drive(&mut fields, out);
    fields.finish(out);
    Some(match drive? {
        Drive::BuiltIn(name) => {
            let drive = DriveSource::BuiltIn(name);
            Model::Ready(DeviceSpec::Hdd(HddSpec { drive, order }))
        }
        Drive::File(figures) => Model::Hdd { figures, order },
    })
}

fn order(value: &Value<'_>, out: &mut Diagnostics) -> Option<hdd::Policy> {
    let choices = [
        ("fcfs", hdd::Policy::Fcfs),
        ("elevator", hdd::Policy::Elevator),
        ("sstf", hdd::Policy::Sstf),
        ("sptf", hdd::Policy::Sptf),
    ];
    values::choice(value, "an order of service", &choices, out)
}

fn flash(value: &Value<'_>, out: &mut Diagnostics) -> Option<Model> {
    let mut fields = Fields::of("`ssd`", value, out)?;
    let precondition = fields.optional("state", state, out).map(Spanned::into_inner);
    let drive = drive(&mut fields, out);
    fields.finish(out);
    Some(match drive? {
        Drive::BuiltIn(name) => {
            let drive = DriveSource::BuiltIn(name);
            Model::Ready(DeviceSpec::Ssd(SsdDevice { drive, precondition }))
        }
        Drive::File(figures) => Model::Ssd { figures, precondition },
    })
}

fn state(value: &Value<'_>, out: &mut Diagnostics) -> Option<Precondition> {
    let choices = [
        ("fresh", Precondition::Fresh),
        ("sequential", Precondition::Sequential),
        ("random", Precondition::Random),
    ];
    values::choice(value, "a state of a flash drive", &choices, out)
}

/// A file that `evenkeel calibrate` wrote.
fn calibrated(value: &Value<'_>, out: &mut Diagnostics) -> Option<Model> {
    let file = values::path(value, out)?;
    Some(Model::Calibrated { file: Spanned::new(value.span(), file) })
}

/// `{ layout = "raid0", unit = "64 KiB", count = 8, of = { hdd = { ... } } }`
fn array(value: &Value<'_>, out: &mut Diagnostics) -> Option<Model> {
    let mut fields = Fields::of("`array`", value, out)?;
    let layout = fields.required("layout", layout, out);
    let unit = fields.optional("unit", values::size, out);
    let count = fields.required("count", at_least_one, out);
    let member = fields.required("of", member, out);
    fields.finish(out);
    let unit_bytes = or(unit, STRIPE_UNIT_BYTES);
    let layout = match layout?.into_inner() {
        Word::Linear => Layout::Linear,
        Word::Striped => Layout::Striped { unit_bytes },
        Word::Mirrored => Layout::Mirrored,
        Word::StripedMirrors => Layout::StripedMirrors { unit_bytes },
    };
    let member = Box::new(member?.into_inner());
    let model = Model::Array { layout, count: count?.into_inner(), member };
    if model.leaves() > MEMBERS_MAX {
        let remedy = format!("{MEMBERS_MAX} in all can be simulated");
        out.error(value.span(), "an array of too many devices", remedy);
        return None;
    }
    Some(model)
}

#[derive(Clone, Copy)]
enum Word {
    Linear,
    Striped,
    Mirrored,
    StripedMirrors,
}

fn layout(value: &Value<'_>, out: &mut Diagnostics) -> Option<Word> {
    let choices = [
        ("linear", Word::Linear),
        ("raid0", Word::Striped),
        ("raid1", Word::Mirrored),
        ("raid10", Word::StripedMirrors),
    ];
    values::choice(value, "a layout of an array", &choices, out)
}

fn member(value: &Value<'_>, out: &mut Diagnostics) -> Option<Model> {
    let mut fields = Fields::of("a member of an array", value, out)?;
    let model = model(&mut fields, out);
    fields.finish(out);
    model
}

enum Drive {
    BuiltIn(String),
    File(Spanned<PathBuf>),
}

/// `drive = NAME` or `figures = FILE`.
fn drive(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<Drive> {
    let name = fields.optional("drive", values::text, out);
    let file = fields.optional("figures", values::path, out);
    match (name, file) {
        (Some(name), None) => Some(Drive::BuiltIn(name.into_inner())),
        (None, Some(file)) => Some(Drive::File(file)),
        _ => {
            let remedy = "write `drive = \"cheetah-9lp\"` or `figures = \"drive.toml\"`";
            out.error(fields.span(), "the drive has no name, or two", remedy);
            None
        }
    }
}

fn constant(value: &Value<'_>, out: &mut Diagnostics) -> Option<DeviceSpec> {
    let default = ConstantSpec::default();
    let mut fields = Fields::of("`constant`", value, out)?;
    let spec = ConstantSpec {
        size_bytes: or(fields.optional("size", values::size, out), default.size_bytes),
        fixed: or(fields.optional("fixed", values::duration, out), default.fixed),
        rate_bytes: or(fields.optional("rate", values::byte_rate, out), default.rate_bytes),
        servers: or(fields.optional("servers", at_least_one, out), default.servers),
    };
    fields.finish(out);
    Some(DeviceSpec::Constant(spec))
}

fn rate(value: &Value<'_>, out: &mut Diagnostics) -> Option<DeviceSpec> {
    let default = RateSpec::default();
    let mut fields = Fields::of("`rate`", value, out)?;
    let rate = fields.required("rate", values::byte_rate, out);
    let connection = fields.optional("connection_rate", values::byte_rate, out);
    let spec = RateSpec {
        size_bytes: or(fields.optional("size", values::size, out), default.size_bytes),
        rate_bits: or(rate, 0).saturating_mul(8),
        connection_rate_bits: or(connection, 0).saturating_mul(8),
        burstiness: or(fields.optional("burstiness", values::duration, out), default.burstiness),
        service: service(&mut fields, out),
    };
    fields.finish(out);
    Some(DeviceSpec::Rate(spec))
}

fn delay(value: &Value<'_>, out: &mut Diagnostics) -> Option<DeviceSpec> {
    let default = DelaySpec::default();
    let mut fields = Fields::of("`delay`", value, out)?;
    let mut time =
        |key, out: &mut Diagnostics| or(fields.optional(key, values::duration, out), Span::ZERO);
    let (read, write) = (time("read", out), time("write", out));
    let (zero, trim) = (time("zero", out), time("trim", out));
    let size_bytes = or(fields.optional("size", values::size, out), default.size_bytes);
    let service = service(&mut fields, out);
    fields.finish(out);
    Some(DeviceSpec::Delay(DelaySpec { size_bytes, read, write, zero, trim, service }))
}

/// What nbdkit's filters share.
fn service(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> NbdkitService {
    let default = NbdkitService::default();
    let connections = fields.optional("connections", at_least_one, out);
    let threads = fields.optional("threads", at_least_one, out);
    NbdkitService {
        connections: or(connections, default.connections),
        threads: or(threads, default.threads),
        overhead: or(fields.optional("overhead", values::duration, out), default.overhead),
        oversleep: or(fields.optional("oversleep", values::duration, out), default.oversleep),
    }
}

/// A `link`.
pub(super) fn link(value: &Value<'_>, out: &mut Diagnostics) -> Option<LinkSpec> {
    let mut fields = Fields::of("`link`", value, out)?;
    let link = LinkSpec {
        rate_bytes: or(fields.optional("rate", values::byte_rate, out), 0),
        delay: or(fields.optional("delay", values::duration, out), Span::ZERO),
        loss_ppm: or(fields.optional("loss_ppm", values::whole, out), 0),
        retransmission: or(fields.optional("retransmission", values::duration, out), Span::ZERO),
    };
    fields.finish(out);
    Some(link)
}

/// A whole number from 1 on.
pub(super) fn at_least_one(value: &Value<'_>, out: &mut Diagnostics) -> Option<u32> {
    let number = values::whole(value, out)?;
    if number == 0 {
        out.error(value.span(), "zero would serve nothing", "write 1 or more");
        return None;
    }
    Some(number)
}

/// A device outside of a `[[device]]`: a document with one model.
pub(super) fn alone(
    fields: &mut Fields<'_, '_>,
    folder: &Path,
    out: &mut Diagnostics,
) -> Option<DeviceSpec> {
    let model = model(fields, out);
    fields.finish(out);
    model?.load(folder, out)
}
