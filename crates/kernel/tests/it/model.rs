//! Random sequences of operations leave lookups equal to a plain model.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use reins_kernel::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const SCOPES_MAX: usize = 6;

#[derive(Clone, Debug)]
enum Operation {
    Child(usize),
    Add(usize, usize),
    Provide(usize),
    /// Admits the names whose bit is set.
    Restrict(usize, u8),
    Drop(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let scope = 0..SCOPES_MAX;
    prop_oneof![
        2 => scope.clone().prop_map(Operation::Child),
        6 => (scope.clone(), 0..NAMES.len()).prop_map(|(at, name)| Operation::Add(at, name)),
        2 => scope.clone().prop_map(Operation::Provide),
        1 => (scope, any::<u8>()).prop_map(|(at, mask)| Operation::Restrict(at, mask)),
        4 => (0..40_usize).prop_map(Operation::Drop),
    ]
}

#[derive(Default)]
struct ModelScope {
    parent: Option<usize>,
    entries: BTreeMap<usize, u32>,
    service: Option<u32>,
    masks: Vec<(u32, u8)>,
}

impl ModelScope {
    fn forget(&mut self, stamp: u32) {
        self.entries.retain(|_, held| *held != stamp);
        self.service = self.service.filter(|held| *held != stamp);
        self.masks.retain(|(held, _)| *held != stamp);
    }

    fn len(&self) -> usize {
        self.entries.len() + usize::from(self.service.is_some()) + self.masks.len()
    }
}

#[derive(Default)]
struct Pair {
    real: Vec<Scope>,
    model: Vec<ModelScope>,
    held: Vec<(Registration, usize, u32)>,
    stamp: u32,
}

impl Pair {
    fn apply(&mut self, operation: &Operation) {
        self.stamp += 1;
        let stamp = self.stamp;
        let origin = Origin::runtime("model");
        let scopes = self.real.len();
        let (at, added) = match *operation {
            Operation::Child(at) => {
                if scopes < SCOPES_MAX {
                    let parent = at % scopes;
                    self.real.push(self.real[parent].child("child"));
                    self.model.push(ModelScope { parent: Some(parent), ..Default::default() });
                }
                return;
            }
            Operation::Drop(at) => {
                if !self.held.is_empty() {
                    let (registration, scope, stamp) = self.held.remove(at % self.held.len());
                    drop(registration);
                    self.model[scope].forget(stamp);
                }
                return;
            }
            Operation::Add(at, name) => {
                let at = at % scopes;
                let free = !self.model[at].entries.contains_key(&name);
                if free {
                    self.model[at].entries.insert(name, stamp);
                }
                let added = self.real[at].add::<u32>(NAMES[name], Arc::new(stamp), &origin);
                assert_eq!(added.is_ok(), free);
                (at, added.ok())
            }
            Operation::Provide(at) => {
                let at = at % scopes;
                let free = self.model[at].service.is_none();
                self.model[at].service.get_or_insert(stamp);
                let added = self.real[at].provide::<u32>(Arc::new(stamp), &origin);
                assert_eq!(added.is_ok(), free);
                (at, added.ok())
            }
            Operation::Restrict(at, mask) => {
                let at = at % scopes;
                self.model[at].masks.push((stamp, mask));
                let admits = move |name: &str| {
                    let bit = NAMES.iter().position(|known| *known == name).unwrap();
                    mask & (1 << bit) != 0
                };
                (at, Some(self.real[at].restrict::<u32>(admits, &Origin::runtime("test"))))
            }
        };
        self.held.extend(added.map(|registration| (registration, at, stamp)));
    }

    fn visible(&self, at: usize) -> BTreeMap<usize, u32> {
        let scope = &self.model[at];
        let mut visible = scope.parent.map(|parent| self.visible(parent)).unwrap_or_default();
        visible.retain(|name, _| scope.masks.iter().all(|(_, mask)| mask & (1 << name) != 0));
        visible.extend(&scope.entries);
        visible
    }

    fn service(&self, at: usize) -> Option<u32> {
        let scope = &self.model[at];
        scope.service.or_else(|| scope.parent.and_then(|parent| self.service(parent)))
    }

    fn compare(&self) {
        for (at, scope) in self.real.iter().enumerate() {
            let expected: Vec<(String, u32)> = self
                .visible(at)
                .into_iter()
                .map(|(name, stamp)| (NAMES[name].to_owned(), stamp))
                .collect();
            let entries = scope.entries::<u32>();
            let listed: Vec<(String, u32)> =
                entries.iter().map(|entry| (entry.name.to_string(), *entry.value)).collect();
            assert_eq!(listed, expected);
            for name in NAMES {
                let found = scope.entry::<u32>(name).map(|entry| (name.to_owned(), *entry.value));
                assert_eq!(found.as_ref(), expected.iter().find(|(known, _)| known == name));
            }
            assert_eq!(scope.service::<u32>().map(|service| *service), self.service(at));
            assert_eq!(scope.contributions(), self.model[at].len());
        }
    }
}

proptest! {
    #[test]
    fn lookups_equal_the_model(operations in prop::collection::vec(operation(), 0..60)) {
        let mut pair = Pair { real: vec![Scope::root()], ..Default::default() };
        pair.model.push(ModelScope::default());
        for operation in &operations {
            pair.apply(operation);
            pair.compare();
        }
        pair.held.clear();
        assert!(pair.real.iter().all(|scope| scope.contributions() == 0));
    }
}
