//! A key of etcd that holds a text, read and followed.

use super::EtcdError;
use crate::built::Feature;

/// A key, and the servers that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    servers: Vec<String>,
    key: String,
}

/// What lies under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The change of the whole etcd that put it there, or deleted it; 0 if it is not there.
    pub revision: i64,
    /// The bytes; none if the key was deleted, or never was.
    pub bytes: Option<Vec<u8>>,
}

impl Key {
    /// Reads `etcd://host:port[,host:port..]/key`; the key begins with the slash. An error is a
    /// sentence with the remedy.
    ///
    /// # Errors
    /// If it has another form, or this was built without etcd.
    pub fn parse(uri: &str) -> Result<Self, String> {
        Feature::Etcd.require()?;
        let malformed = || {
            format!("`{uri}` is no key of etcd; write it like etcd://10.0.0.9:2379/evenkeel/policy")
        };
        let rest = uri.strip_prefix("etcd://").ok_or_else(malformed)?;
        let slash = rest.find('/').ok_or_else(malformed)?;
        let (hosts, key) = rest.split_at(slash);
        let is_host = |host: &str| {
            host.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        if key.len() < 2 || !hosts.split(',').all(is_host) {
            return Err(malformed());
        }
        let servers = hosts.split(',').map(|host| format!("http://{host}")).collect();
        Ok(Self { servers, key: key.to_owned() })
    }

    /// The key alone.
    pub fn name(&self) -> &str {
        &self.key
    }

    /// What lies there now.
    ///
    /// # Errors
    /// If etcd does not answer within seconds.
    #[cfg_attr(not(feature = "etcd"), expect(clippy::unused_async, reason = "etcd needs it"))]
    pub async fn read(&self) -> Result<Text, EtcdError> {
        #[cfg(feature = "etcd")]
        let outcome = follow::read(&self.servers, &self.key).await;
        #[cfg(not(feature = "etcd"))]
        let outcome = Err(Feature::Etcd.lack());
        let servers = self.servers.join(", ");
        outcome.map_err(|why: String| EtcdError { servers, why })
    }

    /// Hands over each text that is newer than this revision, as long as anybody takes them. While
    /// etcd is away it is asked again and again.
    #[cfg_attr(not(feature = "etcd"), expect(clippy::unused_async, reason = "etcd needs it"))]
    pub async fn follow(self, after: i64, tell: tokio::sync::mpsc::UnboundedSender<Text>) {
        #[cfg(feature = "etcd")]
        follow::follow(&self.servers, &self.key, after, &tell).await;
        #[cfg(not(feature = "etcd"))]
        drop((after, tell));
    }
}

#[cfg(feature = "etcd")]
mod follow {
    use std::convert::Infallible;

    use etcd_client::WatchOptions;
    use tokio::sync::mpsc::UnboundedSender;

    use super::super::link::{Retry, connect, within};
    use super::Text;

    pub(super) async fn read(servers: &[String], key: &str) -> Result<Text, String> {
        let mut client = connect(servers).await?;
        get(&mut client, key).await.map(|(text, _)| text)
    }

    /// What lies there, and the revision that etcd has come to.
    async fn get(client: &mut etcd_client::Client, key: &str) -> Result<(Text, i64), String> {
        let answer = within(client.get(key, None)).await?;
        let now = answer.header().ok_or("an answer without a revision")?.revision();
        let found = answer.kvs().first();
        let revision = found.map_or(0, etcd_client::KeyValue::mod_revision);
        Ok((Text { revision, bytes: found.map(|pair| pair.value().to_vec()) }, now))
    }

    pub(super) async fn follow(
        servers: &[String],
        key: &str,
        after: i64,
        tell: &UnboundedSender<Text>,
    ) {
        let (mut last, mut retry, mut was_told) = (after, Retry::default(), false);
        while !tell.is_closed() {
            let mut is_there = false;
            let Err(why) = session(servers, key, &mut last, &mut is_there, tell).await;
            if is_there {
                retry.worked();
                was_told = false;
            }
            let servers = servers.join(", ");
            if std::mem::replace(&mut was_told, true) {
                tracing::debug!(servers, why, "still no etcd");
            } else {
                tracing::warn!(servers, why, "no etcd: the policy stays as it is until it is back");
            }
            tokio::time::sleep(retry.failed()).await;
        }
    }

    /// One connection, from the look at the key to the first error.
    async fn session(
        servers: &[String],
        key: &str,
        last: &mut i64,
        is_there: &mut bool,
        tell: &UnboundedSender<Text>,
    ) -> Result<Infallible, String> {
        let mut client = connect(servers).await?;
        let mut hand_over = |text: Text| {
            if text.revision > *last {
                *last = text.revision;
                let _ = tell.send(text);
            }
        };
        let (text, now) = get(&mut client, key).await?;
        let from = WatchOptions::new().with_start_revision(now + 1);
        hand_over(text);
        let mut changes = within(client.watch(key, Some(from))).await?;
        *is_there = true;
        loop {
            let change = changes.message().await.map_err(|error| error.to_string())?;
            let change = change.ok_or("the connection has ended")?;
            if change.canceled() {
                return Err(format!("the watch has ended: {}", change.cancel_reason()));
            }
            for pair in change.events().iter().filter_map(etcd_client::Event::kv) {
                // A deletion has no version and no value.
                let bytes = (pair.version() > 0).then(|| pair.value().to_vec());
                hand_over(Text { revision: pair.mod_revision(), bytes });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_named_with_its_servers() {
        if !Feature::Etcd.is_built() {
            let said = Key::parse("etcd://a:1/k").unwrap_err();
            assert!(said.contains("--features etcd"), "{said}");
            return;
        }
        let key = Key::parse("etcd://10.0.0.9:2379,[::1]:2379/evenkeel/policy").unwrap();
        assert_eq!(key.servers, ["http://10.0.0.9:2379", "http://[::1]:2379"]);
        assert_eq!(key.name(), "/evenkeel/policy");
        for bad in
            ["policy", "http://a:1/k", "etcd://a:1", "etcd://a:1/", "etcd://a/k", "etcd:///k"]
        {
            assert!(Key::parse(bad).unwrap_err().contains("write it like"), "{bad}");
        }
    }
}
