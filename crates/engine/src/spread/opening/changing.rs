//! Other servers than before: who joins is made ready, and heads with the new members put them in
//! force.

use super::super::layout::Note;
use super::super::members::Members;
use super::super::refusal::{Needed, Refusal, RefusalReason, WrongServers};
use super::{Opening, Phase, Task};
use crate::lease::Act;

impl Opening {
    /// The members from now on, if they are others than before.
    pub(super) fn change(&self) -> Result<Option<Members>, Refusal> {
        let volume = self.opened();
        let (layout, objects) = (&volume.layout, volume.objects_left());
        let is_passing = volume.is_passing();
        let members = layout.members;
        let refuse = |server: usize, reason| Err(self.refusal_of(server, reason));
        if self.missing != 0 && is_passing {
            let servers = self.missing.count_ones();
            return refuse(
                0,
                RefusalReason::Servers(WrongServers::StillNeeded { servers, objects }),
            );
        }
        let staying = (0..self.devices.len()).filter(|server| !self.leaving[*server]);
        let wanted = staying.fold(0, |set, server| set | layout.bit(server));
        let is_needed = |server: &usize| {
            let known = if wanted == members.after { members.all() } else { members.after };
            (wanted | known) & layout.bit(*server) != 0
        };
        if let Some(server) = self.away.or(self.returning).filter(|_| wanted != members.after) {
            return refuse(server, RefusalReason::Needed(Needed::Changing));
        }
        if wanted != members.after && is_passing {
            return refuse(0, RefusalReason::Servers(WrongServers::Changing { objects }));
        }
        if let Some(server) = (0..self.devices.len()).find(|server| !is_needed(server)) {
            return refuse(server, RefusalReason::Servers(WrongServers::HasLeft));
        }
        if wanted != members.after {
            let next = members.change(wanted);
            let too_often = || self.refusal_of(0, RefusalReason::Servers(WrongServers::TooOften));
            return next.ok_or_else(too_often).map(Some);
        }
        // Once nobody is listed any more who has left, nobody can be missing.
        let is_over = members.may_be_changing()
            && !is_passing
            && members.before & !members.after & layout.listed() == 0;
        Ok(is_over.then(|| members.settled()))
    }

    /// Puts other members in force. Whoever joins gets a directory of nothing, whoever keeps the
    /// choices from now on gets them all.
    pub(super) fn welcome(&mut self, members: Members) {
        let volume = self.opened.as_mut().expect("made by the claim");
        let keeping: Vec<usize> = volume.layout.keepers().collect();
        volume.office.generation += 1;
        volume.change(members);
        let layout = volume.layout.clone();
        let mut notes = Vec::new();
        self.new_keepers = layout.keepers().filter(|keeper| !keeping.contains(keeper)).collect();
        for &keeper in &self.new_keepers {
            for (latest, number) in volume.pages[keeper].iter_mut().zip(&volume.versions) {
                latest.number = *number;
            }
            let pages = (0..).zip(&volume.versions).filter(|(_, version)| **version > 0);
            notes.extend(pages.map(|(page, _)| (keeper, Note::Page(page))));
        }
        self.push_notes(notes);
        self.push_each(|server| Task::Flush { server });
        self.phase = Phase::Welcome;
    }

    /// Has what whoever keeps the choices from now on was given listed, and claims whoever joins.
    /// Who keeps them no more goes on to list them: until the heads are written it is asked.
    pub(super) fn list_welcome(&mut self) {
        let joining = self.joining.clone();
        let keepers = std::mem::take(&mut self.new_keepers);
        self.push_directories(keepers.into_iter().filter(|keeper| !joining.contains(keeper)));
        self.push_new_directories(joining.iter().copied());
        self.tasks.extend(joining.into_iter().map(|server| Task::Lease(Act::Claim(server))));
        self.push_each(|server| Task::Flush { server });
        self.phase = Phase::WelcomeListing;
    }

    /// Writes heads with the members that are in force, first on those that join.
    pub(super) fn push_heads(&mut self) {
        let generation = self.opened().office.generation;
        for server in std::mem::take(&mut self.joining) {
            self.tasks.push_back(Task::WriteHead { server, generation });
            self.tasks.push_back(Task::Flush { server });
        }
        self.push_each(|server| Task::WriteHead { server, generation });
    }
}
