//! Which tenant and export of a policy a source of a trace stands for.
//!
//! In this order: what `--map` says; the gate's own names, `tenant/export`; the name of an export;
//! the name of a tenant. Whatever is none of these belongs to whoever the policy's matches give the
//! export to, on the only export or backend there is.

use std::collections::BTreeMap;

use evenkeel_engine::policy::matching::{Identity, identify};
use evenkeel_engine::policy::{DEFAULT_TENANT, Policy};
use evenkeel_sim::scenario::Route;

use crate::exit::Exit;

/// The routes of a policy.
#[derive(Clone, Debug)]
pub(crate) struct Routes<'p> {
    policy: &'p Policy,
    /// By source: tenant, and export if told.
    mapped: BTreeMap<String, (String, Option<String>)>,
}

impl<'p> Routes<'p> {
    /// The routes of a policy, with what `--map` says.
    ///
    /// # Errors
    /// [`Exit::Usage`] for a `--map` that names a tenant or export that the policy does not have.
    pub(crate) fn new(policy: &'p Policy, maps: &[String]) -> anyhow::Result<Self> {
        let mut routes = Self { policy, mapped: BTreeMap::new() };
        for written in maps {
            let refuse = |why: String| {
                let message = format!("--map {written}: {why}; write SOURCE=TENANT[/EXPORT]");
                Exit::Usage.because(message)
            };
            // Names of sources may hold an equals sign, names of tenants hardly do.
            let (source, target) =
                written.rsplit_once('=').ok_or_else(|| refuse("it has no `=`".to_owned()))?;
            let (tenant, export) = match target.split_once('/') {
                Some((tenant, export)) => (tenant, Some(export)),
                None => (target, None),
            };
            if !routes.policy.has_tenant(tenant) {
                return Err(refuse(format!("the policy has no tenant {tenant:?}")));
            }
            if let Some(export) = export.filter(|export| !routes.has_export(export)) {
                return Err(refuse(format!("the policy has no export {export:?}")));
            }
            let target = (tenant.to_owned(), export.map(str::to_owned));
            routes.mapped.insert(source.to_owned(), target);
        }
        Ok(routes)
    }

    /// Where the requests of a source go; the tenant is always told.
    ///
    /// # Errors
    /// [`Exit::Usage`] if nothing says where, with the remedy.
    pub(crate) fn of(&self, source: &str) -> anyhow::Result<Route> {
        if let Some((tenant, export)) = self.mapped.get(source) {
            let target = match export {
                Some(export) => export.clone(),
                None => self.target_of(source, Some(tenant))?,
            };
            return Ok(Route { tenant: Some(tenant.clone()), target });
        }
        let (tenant, export) = match source.split_once('/') {
            Some((tenant, export)) if self.policy.has_tenant(tenant) => (Some(tenant), export),
            Some((_, export)) if self.has_export(export) => (None, export),
            _ if self.policy.has_tenant(source) && !self.has_export(source) => {
                (Some(source), source)
            }
            _ => (None, source),
        };
        let target = if self.has_export(export) {
            export.to_owned()
        } else {
            self.target_of(source, tenant)?
        };
        let tenant = tenant.map_or_else(|| self.owner_of(&target, export), str::to_owned);
        Ok(Route { tenant: Some(tenant), target })
    }

    fn has_export(&self, name: &str) -> bool {
        self.policy.exports.iter().any(|export| export.name == name)
    }

    /// Whoever the matches give a connection to this target to.
    fn owner_of(&self, target: &str, export: &str) -> String {
        let tenants = &self.policy.tenants;
        let named = if self.has_export(target) { target } else { export };
        let owner = identify(tenants, &Identity { export: named, ..Identity::default() });
        owner.map_or(DEFAULT_TENANT, |index| &tenants[index].name).to_owned()
    }

    /// Where a tenant's requests go if nothing tells: to the only export that is its own, or to the
    /// only backend.
    fn target_of(&self, source: &str, tenant: Option<&str>) -> anyhow::Result<String> {
        let exports = self.policy.exports.iter().map(|export| &export.name);
        let own: Vec<&String> = exports
            .filter(|name| tenant.is_some_and(|tenant| self.owner_of(name, name) == tenant))
            .collect();
        if let [only] = own[..] {
            return Ok(only.clone());
        }
        match self.policy.only_backend() {
            Some(only) => Ok(only.name.clone()),
            None => Err(Exit::Usage.because(format!(
                "nothing says which export the requests of {source:?} go to; add --map \
                 {source}=TENANT/EXPORT"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        let text = "listen = [\"unix:s\"]\n[[backend]]\nname = \"m\"\nmemory = true\n\
                    [[export]]\nname = \"db-1\"\nsize = \"1 MiB\"\n\
                    [[export]]\nname = \"scratch\"\nsize = \"1 MiB\"\n\
                    [[tenant]]\nname = \"db\"\nmatch = { export = \"db-*\" }\n\
                    [[tenant]]\nname = \"build\"\nmatch = { export = \"scratch\" }\n";
        crate::config::parse(text, "policy").unwrap()
    }

    fn of(source: &str, maps: &[&str]) -> (String, String) {
        let policy = policy();
        let maps: Vec<String> = maps.iter().map(|&map| map.to_owned()).collect();
        let route = Routes::new(&policy, &maps).unwrap().of(source).unwrap();
        (route.tenant.unwrap(), route.target)
    }

    fn pair(tenant: &str, target: &str) -> (String, String) {
        (tenant.to_owned(), target.to_owned())
    }

    #[test]
    fn names_lead_to_tenants_and_exports() {
        assert_eq!(of("db/db-1", &[]), pair("db", "db-1"), "the gate's own names");
        assert_eq!(of("old/db-1", &[]), pair("db", "db-1"), "the tenant is gone");
        assert_eq!(of("db/gone", &[]), pair("db", "db-1"), "the export is gone");
        assert_eq!(of("scratch", &[]), pair("build", "scratch"), "an export");
        assert_eq!(of("build", &[]), pair("build", "scratch"), "a tenant");
        assert_eq!(of("web_0", &[]), pair("default", "m"), "nobody's");
        assert_eq!(of("web_0", &["web_0=db"]), pair("db", "db-1"), "as told");
        assert_eq!(of("a=b", &["a=b=db/scratch"]), pair("db", "scratch"), "as told in full");
    }

    #[test]
    fn a_map_to_nothing_is_refused() {
        for bad in ["web", "web=nobody", "web=db/nowhere"] {
            let policy = policy();
            let error = Routes::new(&policy, &[bad.to_owned()]).unwrap_err();
            assert_eq!(Exit::of(&error), Exit::Usage, "{bad}");
        }
    }
}
