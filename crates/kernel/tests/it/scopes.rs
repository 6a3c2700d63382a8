use reins_kernel::*;

use crate::plugins::{Read, Tool, layer, references};

#[tokio::test]
async fn a_row_becomes_an_entry() {
    let catalog = Catalog::new(&[PluginDef::of::<Read>()]).unwrap();
    let text = "[[insert]]\nid = \"read\"\nplugin = \"tool-read\"\n[insert.config]\n\
                root = \"${home}/x\"\nmodes = [\"text\"]\n";
    let composition = compose(&[layer("base", None, text)], &catalog, &references()).unwrap();
    let generation = composition.build(&catalog, 1).await.unwrap();
    let tool = generation.scope.entry::<dyn Tool>("read").unwrap();
    assert_eq!(tool.value.run(), "100 Some(\"/home/me/.reins/x\") 0 [] 1");
    assert_eq!(tool.origin.to_string(), "row `read` (base:1)");
    let scope = generation.scope.clone();
    generation.stop().await;
    assert_eq!(scope.contributions(), 0);
}
