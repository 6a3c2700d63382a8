use reins_kernel::*;

struct Step(Vec<&'static str>);

impl Chain for Step {
    const NAME: &'static str = "step";
    type Out = Vec<&'static str>;
}

#[tokio::test]
async fn outer_scopes_wrap_inner_ones() {
    let root = Scope::root();
    let child = root.child("agent");
    let origin = Origin::runtime("test");
    let layer = |name: &'static str| {
        move |mut step: Step, next: Next<Step>| -> BoxFuture<'static, Vec<&'static str>> {
            step.0.push(name);
            next.run(step)
        }
    };
    let _inner = child.wrap(-5, layer("inner"), &origin);
    let _late = root.wrap(2, layer("late"), &origin);
    let _early = root.wrap(1, layer("early"), &origin);
    let run = child.run(Step(vec![]), |step| Box::pin(async move { step.0 }));
    assert_eq!(run.await, ["early", "late", "inner"]);
    let run = root.run(Step(vec![]), |step| Box::pin(async move { step.0 }));
    assert_eq!(run.await, ["early", "late"]);
}
