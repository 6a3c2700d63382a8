use std::sync::Arc;

use reins_kernel::*;

use crate::plugins::{Read, Tool, layer, references};

fn origin() -> Origin {
    Origin::runtime("test")
}

fn names(scope: &Scope) -> Vec<String> {
    scope.entries::<u32>().iter().map(|entry| format!("{}={}", entry.name, entry.value)).collect()
}

#[tokio::test]
async fn a_row_becomes_an_entry() {
    let catalog = Catalog::new(&[PluginDef::of::<Read>()]).unwrap();
    let text = "[[insert]]\nid = \"read\"\nplugin = \"tool-read\"\n[insert.config]\n\
                root = \"${home}/x${env:EMPTY:-y}${env:NOPE:-z}$${env:TOKEN}\"\n\
                modes = [\"text\"]\n";
    let composition = compose(&[layer("base", None, text)], &catalog, &references()).unwrap();
    let generation = composition.build(&catalog, 1, reins_kernel::Root::default()).await.unwrap();
    let tool = generation.scope.entry::<dyn Tool>("read").unwrap();
    assert_eq!(tool.value.run(), "100 Some(\"/home/me/.reins/xyz${env:TOKEN}\") 0 [] 1");
    assert_eq!(tool.origin.to_string(), "row `read` (base:1)");
}

#[test]
fn the_nearest_wins_and_siblings_do_not_see_each_other() {
    let root = Scope::root();
    let (left, right) = (root.child("left"), root.child("right"));
    let _kept = [
        root.add("a", Arc::new(1_u32), &origin()).unwrap(),
        root.add("b", Arc::new(2_u32), &origin()).unwrap(),
        left.add("a", Arc::new(3_u32), &origin()).unwrap(),
        left.provide(Arc::new(4_u32), &origin()).unwrap(),
    ];
    assert_eq!(names(&root), ["a=1", "b=2"]);
    assert_eq!(names(&left), ["a=3", "b=2"]);
    assert_eq!(names(&right), ["a=1", "b=2"]);
    assert_eq!(*left.child("below").need::<u32>().unwrap(), 4);
    let missing = right.need::<u32>().unwrap_err();
    assert_eq!(
        missing.to_string(),
        "service `u32` is not there in scope `right`; enable a row that provides it"
    );
    assert_eq!(left.service_origin::<u32>(), Some(origin()));
    assert_eq!(&*left.entry::<u32>("b").unwrap().scope, "process");
}

#[test]
fn restrictions_intersect_and_spare_what_is_own() {
    let root = Scope::root();
    let child = root.child("child");
    let grandchild = child.child("grandchild");
    let add = |scope: &Scope, name| scope.add(name, Arc::new(0_u32), &origin()).unwrap();
    let _kept = [add(&root, "a"), add(&root, "b"), add(&root, "c"), add(&child, "d")];
    let child_only =
        child.restrict::<u32>(|name| name != "a" && name != "d", &Origin::runtime("test"));
    assert_eq!(names(&child), ["b=0", "c=0", "d=0"]);
    let both =
        grandchild.restrict::<u32>(|name| name == "a" || name == "b", &Origin::runtime("test"));
    assert_eq!(names(&grandchild), ["b=0"]);
    assert!(grandchild.entry::<u32>("a").is_none());
    drop(child_only);
    assert_eq!(names(&grandchild), ["a=0", "b=0"]);
    drop(both);
    assert_eq!(names(&grandchild), ["a=0", "b=0", "c=0", "d=0"]);
    // Other types are not touched.
    let _text = root.add::<str>("a", Arc::from("text"), &origin()).unwrap();
    let _none = child.restrict::<u32>(|_| false, &Origin::runtime("test"));
    assert!(child.entry::<str>("a").is_some());
}

#[test]
fn a_refused_contribution_changes_nothing() {
    let root = Scope::root();
    let _first = root.add("a", Arc::new(1_u32), &origin()).unwrap();
    let conflict = root.add("a", Arc::new(2_u32), &Origin::runtime("second")).unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "u32 `a` is already there from row `test` (runtime); row `second` (runtime) cannot add \
         it again"
    );
    assert_eq!((names(&root), root.contributions()), (vec!["a=1".to_owned()], 1));
}

/// Uses the scope while it is dropped, as a value that holds a registration of its own does.
struct Nested(Scope, #[expect(dead_code, reason = "held for its drop")] Option<Registration>);

impl Drop for Nested {
    fn drop(&mut self) {
        assert!(self.0.entries::<u32>().len() < 10);
    }
}

#[test]
fn values_are_dropped_outside_the_lock() {
    // In a thread: under the lock this would wait for ever.
    let (done, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let root = Scope::root();
        let inner = root.add("inner", Arc::new(1_u32), &origin()).unwrap();
        let value = Arc::new(Nested(root.clone(), Some(inner)));
        let outer = root.add("outer", value, &origin()).unwrap();
        let refused = root.add("outer", Arc::new(Nested(root.clone(), None)), &origin());
        let held = root.contributions();
        drop(outer);
        done.send((refused.is_err(), held, root.contributions()))
    });
    let result = end.recv_timeout(std::time::Duration::from_secs(30));
    assert_eq!(result, Ok((true, 2, 0)));
}

#[test]
fn a_registration_may_outlive_its_scope() {
    let root = Scope::root();
    let registration = root.add("a", Arc::new(1_u32), &origin()).unwrap();
    drop(root);
    drop(registration);
}
