//! What a reflector takes of memory.

use super::*;
use crate::options::KubeOptions;
use larder_objects::ObjectKey;
use std::mem::size_of_val;

/// What a reflector holds while its watch is open is in its task; what it needs for its beginning is not.
#[tokio::test]
async fn a_reflectors_task_is_small() {
    let client = KubeClient::without_credentials("http://example", KubeOptions::default()).expect("good options");
    let reflectors = client.reflectors(ObjectKind::Secret);
    let (sink, _events) = ReflectorSink::channel();
    let selection = Selection::Object(ObjectKind::Secret, ObjectKey::new("web", "tls"));
    let owner = &reflectors.owner;
    let list_watch = ListWatch::new(Arc::clone(&owner.shared), selection, sink, String::new())
        .expect("a name that an object can have");
    let (handle, registration) = AbortHandle::new_pair();
    let size = size_of_val(&run(list_watch, registration, Arc::clone(&owner.tasks).enter(&handle)));
    // With what tokio puts around it, 640 bytes; what is larger takes 768, for tasks are aligned to 128.
    assert!(size <= 520, "{size} bytes");
}
