//! Reads single values of the policy file: texts, numbers, amounts with units, addresses, choices.

use std::net::IpAddr;
use std::path::PathBuf;

use evenkeel_core::time::Span;
use evenkeel_engine::policy::{Address, Mode};
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::Diagnostics;
use super::fields::{list, mismatch, nearest};
use crate::emulate;
use crate::units::{self, Amount, UnitError};

type Value<'i> = Spanned<DeValue<'i>>;

/// A network: address and prefix length.
pub(crate) type Network = (IpAddr, u8);

pub(crate) fn text(value: &Value<'_>, out: &mut Diagnostics) -> Option<String> {
    text_as(value, "a text", "it in quotes", out).map(str::to_owned)
}

pub(crate) fn path(value: &Value<'_>, out: &mut Diagnostics) -> Option<PathBuf> {
    let path = text_as(value, "a path", "it in quotes", out)?;
    if path.is_empty() || path.contains('\0') {
        out.error(value.span(), "this path is empty or holds a zero byte", "name a file or folder");
        return None;
    }
    Some(PathBuf::from(path))
}

/// The name of a hard disk of which there is a model.
pub(crate) fn drive_model(value: &Value<'_>, out: &mut Diagnostics) -> Option<String> {
    let name = text(value, out)?;
    if emulate::names().any(|known| known == name) {
        return Some(name);
    }
    let message = format!("no drive `{name}` can be emulated");
    out.error(value.span(), message, format!("there are {}", emulate::known()));
    None
}

pub(crate) fn truth(value: &Value<'_>, out: &mut Diagnostics) -> Option<bool> {
    if let DeValue::Boolean(truth) = value.get_ref() {
        return Some(*truth);
    }
    mismatch(value, "a truth value", "`true` or `false`", out);
    None
}

pub(crate) fn whole(value: &Value<'_>, out: &mut Diagnostics) -> Option<u32> {
    if let DeValue::Integer(number) = value.get_ref() {
        let parsed = u32::from_str_radix(number.as_str(), number.radix());
        if parsed.is_err() {
            out.error(value.span(), "this number is out of range", "0 to 4294967295 can be held");
        }
        return parsed.ok();
    }
    mismatch(value, "a whole number", "digits without quotes", out);
    None
}

/// A number from 0.001 on with at most three decimals, in thousandths.
pub(crate) fn thousandths(value: &Value<'_>, out: &mut Diagnostics) -> Option<u32> {
    let written = match value.get_ref() {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        _ => {
            mismatch(value, "a number", "such as `4` or `0.5`, without quotes", out);
            return None;
        }
    };
    let parsed = parse_thousandths(&written);
    if parsed.is_none() {
        let remedy = "write a number from 0.001 to 1000000 with up to three decimals";
        out.error(value.span(), "this number does not fit", remedy);
    }
    parsed
}

pub(crate) fn size(value: &Value<'_>, out: &mut Diagnostics) -> Option<u64> {
    amount(value, "a size", "such as `\"4 MiB\"`", units::parse_size, out)
}

pub(crate) fn duration(value: &Value<'_>, out: &mut Diagnostics) -> Option<Span> {
    amount(value, "a duration", "such as `\"10 ms\"`", units::parse_duration, out)
}

pub(crate) fn byte_rate(value: &Value<'_>, out: &mut Diagnostics) -> Option<u64> {
    amount(value, "a rate", "such as `\"200 MiB/s\"`", units::parse_byte_rate, out)
}

pub(crate) fn request_rate(value: &Value<'_>, out: &mut Diagnostics) -> Option<u64> {
    amount(value, "a rate", "such as `\"500 iops\"`", units::parse_request_rate, out)
}

/// One rate, or a list of them.
pub(crate) fn rates(value: &Value<'_>, out: &mut Diagnostics) -> Option<Vec<Spanned<Amount>>> {
    one_or_more(value, out, |item, out| {
        let examples = "such as `\"200 MiB/s\"` or `\"500 iops\"`";
        amount(item, "a rate", examples, units::parse_rate, out)
    })
}

/// One burst, or a list of them.
pub(crate) fn bursts(value: &Value<'_>, out: &mut Diagnostics) -> Option<Vec<Spanned<Amount>>> {
    one_or_more(value, out, |item, out| {
        let examples = "such as `\"4 MiB\"` or `\"100 requests\"`";
        amount(item, "a burst", examples, units::parse_burst, out)
    })
}

/// A list of texts.
pub(crate) fn texts(value: &Value<'_>, out: &mut Diagnostics) -> Option<Vec<Spanned<String>>> {
    list_of(value, "such as `[\"a\", \"b\"]`", out, text)
}

/// A list of paths.
pub(crate) fn paths(value: &Value<'_>, out: &mut Diagnostics) -> Option<Vec<Spanned<PathBuf>>> {
    list_of(value, "such as `[\"/dev/sda\", \"/dev/sdb\"]`", out, path)
}

/// A list of addresses to listen on.
pub(crate) fn addresses(value: &Value<'_>, out: &mut Diagnostics) -> Option<Vec<Spanned<Address>>> {
    list_of(value, "such as `[\"127.0.0.1:10809\"]`", out, address)
}

/// `host:port`, `[v6]:port` or `unix:/path`.
pub(crate) fn address(value: &Value<'_>, out: &mut Diagnostics) -> Option<Address> {
    let examples = "`\"127.0.0.1:10809\"`, `\"[::]:10809\"` or `\"unix:/run/evenkeel/nbd.sock\"`";
    let written = text_as(value, "an address", examples, out)?;
    let parsed = parse_address(written);
    if parsed.is_none() {
        let message = format!("`{}` is no address", written.chars().take(80).collect::<String>());
        out.error(value.span(), message, format!("write it like {examples}"));
    }
    parsed
}

/// `10.0.0.0/8`, or an address alone for one host.
pub(crate) fn network(value: &Value<'_>, out: &mut Diagnostics) -> Option<Network> {
    let examples = "`\"10.1.0.0/16\"` or `\"10.1.2.3\"`";
    let parsed = parse_network(text_as(value, "a network", examples, out)?);
    if parsed.is_none() {
        out.error(value.span(), "this is no network", format!("write it like {examples}"));
    }
    parsed
}

pub(crate) fn mode(value: &Value<'_>, out: &mut Diagnostics) -> Option<Mode> {
    let modes = [("observe", Mode::Observe), ("shadow", Mode::Shadow), ("enforce", Mode::Enforce)];
    choice(value, "a mode", &modes, out)
}

/// One of a few words.
pub(crate) fn choice<T: Copy>(
    value: &Value<'_>,
    what: &str,
    choices: &[(&str, T)],
    out: &mut Diagnostics,
) -> Option<T> {
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    let written = text_as(value, what, &list(&words), out)?;
    let chosen = choices.iter().find(|(word, _)| *word == written).map(|(_, meaning)| *meaning);
    if chosen.is_none() {
        let shown: String = written.chars().take(40).collect();
        let remedy = match nearest(written, &words) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("write one of {}", list(&words)),
        };
        out.error(value.span(), format!("`{shown}` is not {what}"), remedy);
    }
    chosen
}

/// The address that a text names, if it names one.
pub fn parse_address(written: &str) -> Option<Address> {
    if let Some(path) = written.strip_prefix("unix:") {
        let usable = !path.is_empty() && !path.contains('\0');
        return usable.then(|| Address::Unix(PathBuf::from(path)));
    }
    let (host, port) = written.rsplit_once(':')?;
    port.parse::<u16>().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()))?;
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let good = if let Some(v6) = bracketed {
        v6.parse::<std::net::Ipv6Addr>().is_ok()
    } else {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-' || c == '_';
        !host.is_empty() && host.len() <= 253 && host.chars().all(plain)
    };
    good.then(|| Address::Tcp(written.to_owned()))
}

/// The network that a text names, if it names one: address and prefix length.
pub fn parse_network(written: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = match written.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix.parse::<u8>().ok()?)),
        None => (written, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.unwrap_or(bits);
    (prefix <= bits).then_some((address, prefix))
}

fn parse_thousandths(written: &str) -> Option<u32> {
    let (whole, fraction) = written.split_once('.').unwrap_or((written, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if fraction.len() > 3 || whole.len() > 7 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let milli: u32 = format!("{whole}{fraction:0<3}").parse().ok()?;
    (1..=1_000_000_000).contains(&milli).then_some(milli)
}

fn text_as<'v>(
    value: &'v Value<'_>,
    what: &str,
    examples: &str,
    out: &mut Diagnostics,
) -> Option<&'v str> {
    if let DeValue::String(text) = value.get_ref() {
        return Some(text);
    }
    mismatch(value, what, examples, out);
    None
}

fn amount<T>(
    value: &Value<'_>,
    what: &str,
    examples: &str,
    parse: fn(&str) -> Result<T, UnitError>,
    out: &mut Diagnostics,
) -> Option<T> {
    let written = text_as(value, what, examples, out)?;
    let refuse = |error: UnitError| {
        out.error(value.span(), error.to_string(), format!("write it like {}", error.examples));
    };
    parse(written).map_err(refuse).ok()
}

fn one_or_more<T>(
    value: &Value<'_>,
    out: &mut Diagnostics,
    read: fn(&Value<'_>, &mut Diagnostics) -> Option<T>,
) -> Option<Vec<Spanned<T>>> {
    if let DeValue::Array(_) = value.get_ref() {
        return list_of(value, "", out, read);
    }
    Some(vec![Spanned::new(value.span(), read(value, out)?)])
}

fn list_of<T>(
    value: &Value<'_>,
    examples: &str,
    out: &mut Diagnostics,
    read: fn(&Value<'_>, &mut Diagnostics) -> Option<T>,
) -> Option<Vec<Spanned<T>>> {
    let DeValue::Array(items) = value.get_ref() else {
        mismatch(value, "a list", examples, out);
        return None;
    };
    items.iter().map(|item| Some(Spanned::new(item.span(), read(item, out)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_up_to_three_decimals() {
        let read: Vec<_> =
            ["4", "0.5", "1.005", "1000000", "2.5000"].map(parse_thousandths).into_iter().collect();
        assert_eq!(read, [Some(4000), Some(500), Some(1005), Some(1_000_000_000), Some(2500)]);
        for bad in ["0", "-1", "0.0001", "1e3", "inf", "1000001", "+4", ""] {
            assert_eq!(parse_thousandths(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_name_a_host_and_port_or_a_socket() {
        assert_eq!(parse_address("[::1]:80"), Some(Address::Tcp("[::1]:80".to_owned())));
        assert_eq!(parse_address("unix:/a"), Some(Address::Unix("/a".into())));
        for bad in
            ["", "host", ":80", "host:", "host:70000", "host:+8", "a b:80", "[x]:80", "unix:"]
        {
            assert_eq!(parse_address(bad), None, "{bad}");
        }
    }

    #[test]
    fn networks_have_a_prefix_that_fits_the_family() {
        assert_eq!(parse_network("10.0.0.0/8"), Some(("10.0.0.0".parse().unwrap(), 8)));
        assert_eq!(parse_network("::1"), Some(("::1".parse().unwrap(), 128)));
        assert_eq!(parse_network("10.0.0.0/33"), None);
    }
}
