//! What keeps a tenant back before its requests reach the engine, or behind it: what only the
//! driver knows.

use super::{Cause, Finding, Standing};

/// What the driver knows of one tenant in one domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// A backend that its requests go to and that is away, and why.
    pub away: Option<(String, String)>,
    /// Requests of it that failed in the last seconds, and where.
    pub failed: Option<Failed>,
    /// Connections of it that wait for the gate's memory now.
    pub waiting_for_memory: u64,
    /// Who holds most of that memory beyond its own part.
    pub memory_held_by: Option<String>,
    /// Whether connections of it were refused lately because of a bound.
    pub is_refused: bool,
}

/// Requests that a backend failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failed {
    /// How many of them.
    pub requests: u64,
    /// Where the last one failed.
    pub backend: String,
    /// What the backend said of it.
    pub why: String,
    /// Whether it has no room.
    pub is_full: bool,
}

impl Finding {
    /// The finding for this tenant, with what the driver knows. A backend that is away takes
    /// precedence, then one that fails requests: speed is nothing beside that. Memory and refused
    /// connections are of this instant, and perhaps of one connection among several: they count
    /// where nothing else was found.
    #[must_use]
    pub fn beside(self, tenant: &str, surroundings: &Surroundings) -> Self {
        let Surroundings { away, failed, waiting_for_memory, memory_held_by, is_refused } =
            surroundings;
        let is_open = matches!(self.cause, None | Some(Cause::AsksTooLittle));
        let (cause, sentence, remedy) = if let Some((backend, why)) = away {
            let sentence = format!("{tenant} is not served: {backend} is away: {why}");
            let remedy = format!("look at the server behind `{backend}` and the network to it");
            (Cause::Upstream, sentence, remedy)
        } else if let Some(Failed { requests, backend, why, is_full }) = failed {
            let sentence = format!(
                "{tenant} gets errors: {backend} failed {requests} of its requests just now: {why}"
            );
            let remedy = if *is_full {
                "make room there, or have its clients discard what they do not need".to_owned()
            } else {
                format!("look at what is behind `{backend}`")
            };
            (Cause::Errors, sentence, remedy)
        } else if !is_open {
            return self;
        } else if *waiting_for_memory > 0 {
            let connections = if *waiting_for_memory == 1 { "connection" } else { "connections" };
            let by = memory_held_by.as_ref().filter(|by| by.as_str() != tenant);
            let by = by.map_or_else(String::new, |by| format!(", of which {by} holds most"));
            let sentence = format!(
                "{tenant} is not read: {waiting_for_memory} of its {connections} wait for memory \
                 of the gate{by}"
            );
            let remedy = "raise `payload` under [memory], or have clients read their answers";
            (Cause::Memory, sentence, remedy.to_owned())
        } else if *is_refused {
            let sentence =
                format!("{tenant} is not let in: connections of it were refused just now");
            let remedy = "close connections that are not used, or raise `connections` under \
                          [memory]";
            (Cause::Connections, sentence, remedy.to_owned())
        } else {
            return self;
        };
        let standing = Standing::BelowItsDue;
        Self { standing, cause: Some(cause), behind: None, sentence, remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_knows_takes_precedence_where_it_is_certain() {
        let of = |cause| Finding { cause, ..Finding::default() };
        let (named, reckoned) = (of(Some(Cause::OthersShares)), || of(Some(Cause::AsksTooLittle)));
        let nothing = Surroundings::default();
        assert_eq!(reckoned().beside("db", &nothing).cause, Some(Cause::AsksTooLittle));
        let refused = Surroundings { is_refused: true, ..nothing };
        assert_eq!(reckoned().beside("db", &refused).cause, Some(Cause::Connections));
        let kept = named.clone().beside("db", &refused);
        assert_eq!(kept.cause, Some(Cause::OthersShares), "one refused of many hides nobody");
        let memory_held_by = Some("hog".to_owned());
        let waiting = Surroundings { waiting_for_memory: 2, memory_held_by, ..refused };
        let finding = reckoned().beside("db", &waiting);
        assert_eq!((finding.cause, finding.standing), (Some(Cause::Memory), Standing::BelowItsDue));
        assert!(finding.sentence.contains("2 of its connections"), "{}", finding.sentence);
        assert!(finding.sentence.contains("hog"), "{}", finding.sentence);
        let away = Some(("array".to_owned(), "connection refused".to_owned()));
        let failed = Failed {
            requests: 2,
            backend: "array".to_owned(),
            why: "no room".to_owned(),
            is_full: true,
        };
        let waiting = Surroundings { failed: Some(failed), ..waiting };
        let finding = named.clone().beside("db", &waiting);
        assert_eq!((finding.cause, finding.standing), (Some(Cause::Errors), Standing::BelowItsDue));
        assert_eq!(
            finding.sentence,
            "db gets errors: array failed 2 of its requests just now: no room"
        );
        let finding = named.beside("db", &Surroundings { away, ..waiting });
        assert_eq!(finding.cause, Some(Cause::Upstream));
        assert!(finding.sentence.ends_with("array is away: connection refused"));
    }
}
