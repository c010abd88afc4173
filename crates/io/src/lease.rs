//! The lease of one volume in this process: the one gatekeeper that every byte to its servers
//! passes, and what each server has to show before it is served from.
//!
//! ```text
//! opening, pulses -- looks, beats --> VolumeLease <-- may it go now? -- every link, at its socket
//!                                       |    ^
//!             right is back: links go on|    | front of a server, read on every new connection
//!                                       v    |
//!                                     links of all servers
//! ```

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::ops::Range;
use std::rc::{Rc, Weak};

use evenkeel_core::id::ServerId;
use evenkeel_core::time::Nanos;
use evenkeel_engine::lease::{Durable, Fenced, Gatekeeper, Identity, Lease, Mark, Sending, Times};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::device::remote::link::Link;
use crate::domain::Domain;
use crate::known::Known;
use crate::underway::{Noted, Underway};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct VolumeLease {
    clock: Clock,
    domain: Weak<Domain>,
    keeper: RefCell<Gatekeeper>,
    members: RefCell<Vec<Member>>,
    links: RefCell<Vec<Weak<Link>>>,
    /// Where it is noted what is under way; none if the gate has no folder of its own.
    underway: Option<Rc<Underway>>,
    /// The count that marks carry.
    count: Cell<Count>,
    /// Where this gate remembers the volume; none if it has no folder of its own.
    known: RefCell<Option<Known>>,
    /// Where its servers see this gate.
    addresses: RefCell<Vec<IpAddr>>,
    /// Told when a link stands, and what is due there need not wait for the next beat; and when the
    /// volume is lost.
    pub(crate) news: Notify,
}

/// How far an owner has counted, and since when.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    count: u64,
    since: Nanos,
}

/// What is known of one server.
#[derive(Debug)]
struct Member {
    server: ServerId,
    expected: Expected,
    /// Which server's address leads to it: its own, unless servers have exchanged theirs.
    route: Cell<usize>,
    /// Whether another server of the volume was found behind the address that was tried last.
    is_misplaced: Cell<bool>,
    /// Behind which server's address it was served from last.
    served_at: Cell<usize>,
    is_fenced: Cell<bool>,
}

/// What a server has to show.
#[derive(Debug)]
enum Expected {
    /// Nobody knows yet.
    Anything,
    /// Which server of the volume it is.
    Server(Identity),
    /// That it is as this gate has left it.
    Leased(Rc<RefCell<Lease>>),
}

/// One server's part of a volume's lease.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    lease: Rc<VolumeLease>,
    index: usize,
}

impl VolumeLease {
    /// Nothing is held yet.
    pub(crate) fn new(
        domain: &Rc<Domain>,
        times: Times,
        servers: &[ServerId],
        underway: Option<Rc<Underway>>,
    ) -> Rc<Self> {
        let member = |(index, &server): (usize, &ServerId)| Member {
            server,
            expected: Expected::Anything,
            route: Cell::new(index),
            is_misplaced: Cell::new(false),
            served_at: Cell::new(index),
            is_fenced: Cell::new(false),
        };
        Rc::new(Self {
            clock: domain.worker.clock,
            domain: Rc::downgrade(domain),
            keeper: RefCell::new(Gatekeeper::new(times, servers.len())),
            members: RefCell::new(servers.iter().enumerate().map(member).collect()),
            links: RefCell::default(),
            underway,
            count: Cell::default(),
            known: RefCell::default(),
            addresses: RefCell::default(),
            news: Notify::new(),
        })
    }

    /// The part of this server, in the order of the policy.
    pub(crate) fn guard(self: &Rc<Self>, index: usize) -> Guard {
        Guard { lease: Rc::clone(self), index }
    }

    pub(crate) fn times(&self) -> Times {
        self.keeper.borrow().times()
    }

    /// An opening has gained this right, and knows which servers these are.
    pub(crate) fn opening(&self, right: &Gatekeeper, identity: impl Fn(usize) -> Option<Identity>) {
        for (index, member) in self.members.borrow_mut().iter_mut().enumerate() {
            let identity = identity(index);
            member.expected = identity.map_or(Expected::Anything, Expected::Server);
        }
        self.change(|keeper| keeper.clone_from(right));
    }

    /// The volume is open, and this gate beats on its servers from now on, where they are there.
    pub(crate) fn opened(&self, lease: impl Fn(usize) -> Option<Lease>) {
        let mut members = self.members.borrow_mut();
        for (index, member) in members.iter_mut().enumerate() {
            member.is_fenced.set(false);
            let leased = lease(index).map(|lease| Rc::new(RefCell::new(lease)));
            member.expected = leased.map_or(Expected::Anything, Expected::Leased);
        }
    }

    /// Until when the volume is ours.
    pub(crate) fn held_until(&self) -> Nanos {
        self.keeper.borrow().held_until()
    }

    pub(crate) fn is_out(&self) -> bool {
        self.keeper.borrow().is_out()
    }

    /// A good look at a server was sent at this time.
    pub(crate) fn looked(&self, index: usize, sent_at: Nanos) {
        self.change(|keeper| keeper.looked(index, sent_at));
    }

    /// A beat that was sent at this time was written.
    pub(crate) fn beaten(&self, index: usize, sent_at: Nanos) {
        let now = self.clock.now();
        self.change(|keeper| keeper.beaten(index, sent_at, now));
    }

    /// Where this gate remembers the volume from now on.
    pub(crate) fn remember(&self, known: Option<Known>) {
        self.known.replace(known);
    }

    /// What the next beat is to say; so many moves are durable. Once a beat's time it counts on.
    pub(crate) fn mark(&self, noted: u64) -> Mark {
        let now = self.clock.now();
        let Count { count, since } = self.count.get();
        let is_next = count == 0 || now.since(since) >= self.times().beat();
        let count = count + u64::from(is_next);
        let members = self.members.borrow();
        let leases = members.iter().filter_map(|member| match &member.expected {
            Expected::Leased(lease) => Some(lease.borrow()),
            Expected::Anything | Expected::Server(_) => None,
        });
        let durable = Durable::of(leases.map(|lease| (lease.number(), lease.durable())));
        let mark = Mark::new(noted, count, durable);
        if is_next {
            self.count.set(Count { count, since: now });
            let known = self.known.borrow();
            if let Some(Err(error)) = known.as_ref().map(|known| known.note(mark)) {
                tracing::debug!(%error, "what is known of a volume is not noted");
            }
        }
        mark
    }

    /// Another gate has the volume: nothing is sent any more, and no link comes back.
    pub(crate) fn leave_office(&self) {
        self.keeper.borrow_mut().leave_office();
        self.each_link(Link::bar);
        self.news.notify_waiters();
    }

    /// Waits until another gate has the volume.
    pub(crate) async fn lost(&self) {
        loop {
            let news = self.news.notified();
            if self.is_out() {
                return;
            }
            news.await;
        }
    }

    /// Where the servers see this gate, with a space between any two addresses.
    pub(crate) fn addresses(&self) -> String {
        let addresses = self.addresses.borrow();
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    /// Lets links go on once a right is back that was not there.
    fn change(&self, how: impl FnOnce(&mut Gatekeeper)) {
        let now = self.clock.now();
        let is_held = |keeper: &Gatekeeper| now < keeper.held_until();
        let was_held = is_held(&self.keeper.borrow());
        how(&mut self.keeper.borrow_mut());
        if !was_held && is_held(&self.keeper.borrow()) {
            self.each_link(Link::go_on);
        }
    }

    fn each_link(&self, what: impl Fn(&Link)) {
        self.links.borrow_mut().retain(|link| link.strong_count() > 0);
        let links: Vec<_> = self.links.borrow().iter().filter_map(Weak::upgrade).collect();
        for link in links {
            what(&link);
        }
    }
}

impl Guard {
    /// Whether this may go to the server now. Asked for all that is sent, at its socket.
    pub(crate) fn may_send(&self, what: Sending) -> bool {
        let now = self.lease.clock.now();
        self.lease.keeper.borrow().may_send(now, self.index, what)
    }

    /// The spans that the server's sockets go by.
    pub(crate) fn times(&self) -> Times {
        self.lease.times()
    }

    /// Notes that these bytes of the server are about to be changed.
    pub(crate) fn note_underway(&self, range: &Range<u64>) -> Option<Noted> {
        Some(self.lease.underway.as_ref()?.note(self.index, range))
    }

    /// A link to the server is to be told when it may go on, or must stop for good.
    pub(crate) fn enlist(&self, link: &Rc<Link>) {
        self.lease.links.borrow_mut().push(Rc::downgrade(link));
    }

    /// This is where the server sees this gate. Addresses within one machine tell no host apart.
    pub(crate) fn note_address(&self, address: IpAddr) {
        let mut addresses = self.lease.addresses.borrow_mut();
        if !address.is_loopback() && !addresses.contains(&address) {
            addresses.push(address);
        }
    }

    /// Which server's address leads to this one.
    pub(crate) fn route(&self) -> usize {
        self.lease.members.borrow()[self.index].route.get()
    }

    /// The server is not behind this address. Where another one of the volume is there, it is
    /// looked for behind the next address; else behind its own. It may have been found meanwhile.
    pub(crate) fn give_up_route(&self, tried: usize) {
        let members = self.lease.members.borrow();
        let Member { route, is_misplaced, .. } = &members[self.index];
        if route.get() == tried {
            route.set(if is_misplaced.get() { (tried + 1) % members.len() } else { self.index });
        }
    }

    /// The server's place in the order of the policy.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The time by which rights are judged.
    pub(crate) fn now(&self) -> Nanos {
        self.lease.clock.now()
    }

    /// Whether it is known what the server has to show.
    pub(crate) fn is_judging(&self) -> bool {
        !matches!(self.lease.members.borrow()[self.index].expected, Expected::Anything)
    }

    /// What the server is gone by, if the volume is open with it.
    pub(crate) fn lease(&self) -> Option<Rc<RefCell<Lease>>> {
        match &self.lease.members.borrow()[self.index].expected {
            Expected::Leased(lease) => Some(Rc::clone(lease)),
            Expected::Anything | Expected::Server(_) => None,
        }
    }

    /// Judges the front of the server behind a new connection to this address; it was asked for at
    /// this time.
    ///
    /// # Errors
    /// Why nothing may be read from there or written.
    pub(crate) fn prove(
        &self,
        front: &[u8],
        (address, sent_at): (usize, Nanos),
    ) -> Result<(), Fenced> {
        let verdict = match &self.lease.members.borrow()[self.index].expected {
            Expected::Anything => return Ok(()),
            Expected::Server(identity) => identity.check(front),
            Expected::Leased(lease) => lease.borrow().look(front),
        };
        let is_misplaced = matches!(verdict, Err(Fenced::Misplaced { .. }));
        self.lease.members.borrow()[self.index].is_misplaced.set(is_misplaced);
        match &verdict {
            Ok(()) => {
                self.lease.looked(self.index, sent_at);
                self.tell_place(address);
                self.clear();
            }
            Err(Fenced::Misplaced { found, .. }) => self.found_elsewhere(*found, address),
            Err(_) => {}
        }
        if let Err(why) = &verdict {
            self.fence(why);
        }
        verdict
    }

    /// Says where the server is, if it was elsewhere before.
    fn tell_place(&self, address: usize) {
        let members = self.lease.members.borrow();
        let member = &members[self.index];
        if member.served_at.replace(address) != address
            && let Some(domain) = self.lease.domain.upgrade()
        {
            domain.tell_place(member.server, members[address].server);
        }
    }

    /// Behind this server's address there is another one of the volume.
    fn found_elsewhere(&self, number: u32, address: usize) {
        let members = self.lease.members.borrow();
        let is_it = |member: &&Member| match &member.expected {
            Expected::Anything => false,
            Expected::Server(identity) => identity.number == number,
            Expected::Leased(lease) => lease.borrow().number() == number,
        };
        if let Some(member) = members.iter().find(is_it) {
            member.route.set(address);
        }
    }

    /// Tells whoever serves the volume that this server is not what it has to be, once.
    fn fence(&self, why: &Fenced) {
        let Some(domain) = self.lease.domain.upgrade() else { return };
        let members = self.lease.members.borrow();
        let member = &members[self.index];
        let is_open = matches!(member.expected, Expected::Leased(_));
        match why {
            Fenced::Claimed(by) if is_open => {
                let by = by.clone();
                drop(members);
                domain.leave_office(&self.lease, &by);
            }
            _ if is_open && !member.is_fenced.replace(true) => {
                let server = member.server;
                drop(members);
                domain.fence_server(server, why);
            }
            _ => {}
        }
    }

    /// The server is again what it has to be.
    fn clear(&self) {
        let member_server = {
            let members = self.lease.members.borrow();
            let member = &members[self.index];
            member.is_fenced.replace(false).then_some(member.server)
        };
        if let (Some(server), Some(domain)) = (member_server, self.lease.domain.upgrade()) {
            domain.clear_server(server);
        }
        self.lease.news.notify_waiters();
    }

    /// A look before a beat found this: whatever stands to the server is given up, and has to show
    /// what it is.
    pub(crate) fn judged(&self, why: &Fenced) {
        self.fence(why);
        self.lease.each_link(|link| link.cut_if(self.index));
    }
}
