//! Each way that a pod refers to a Secret or a ConfigMap, alone and in a pod that has them all.

use k8s_openapi::api::core::v1::Pod;
use larder_objects::references::{ConfigMaps, PodIdentity, References, Secrets, config_maps, secrets};

/// A pod whose spec is this JSON.
fn pod(spec: &str) -> Pod {
    // Every spec needs containers to be read.
    let containers = if spec.contains("\"containers\"") { "" } else { "\"containers\":[]," };
    serde_json::from_str(&format!("{{\"spec\":{{{containers}{spec}}}}}"))
        .unwrap_or_else(|error| panic!("{spec}: {error}"))
}

/// `volumes` with one volume of this source.
fn volume(source: &str) -> String {
    format!(r#""volumes":[{{"name":"v",{source}}}]"#)
}

type Expected = &'static [(&'static str, bool)];

#[track_caller]
fn check(spec: &str, expected_secrets: Expected, expected_config_maps: Expected) {
    let pod = pod(spec);
    let found: Vec<_> = secrets(&pod).iter().map(|it| (it.name, it.optional)).collect();
    assert_eq!(found, expected_secrets, "secrets of {spec}");
    let found: Vec<_> = config_maps(&pod).iter().map(|it| (it.name, it.optional)).collect();
    assert_eq!(found, expected_config_maps, "config maps of {spec}");
}

#[test]
fn image_pull_secrets() {
    check(r#""imagePullSecrets":[{"name":"s1"},{"name":""},{},{"name":"s2"}]"#, &[("s1", false), ("s2", false)], &[]);
}

#[test]
fn volumes() {
    let table: [(&str, Expected, Expected); 19] = [
        (r#""secret":{"secretName":"s"}"#, &[("s", false)], &[]),
        (r#""secret":{"secretName":"s","optional":true}"#, &[("s", true)], &[]),
        (r#""secret":{"optional":true}"#, &[], &[]),
        (r#""configMap":{"name":"c"}"#, &[], &[("c", false)]),
        (r#""configMap":{"name":"c","optional":true}"#, &[], &[("c", true)]),
        (r#""configMap":{}"#, &[], &[]),
        (r#""azureFile":{"secretName":"s","shareName":"x"}"#, &[("s", false)], &[]),
        (r#""cephfs":{"monitors":[],"secretRef":{"name":"s"}}"#, &[("s", false)], &[]),
        (r#""cinder":{"volumeID":"x","secretRef":{"name":"s"}}"#, &[("s", false)], &[]),
        (r#""flexVolume":{"driver":"x","secretRef":{"name":"s"}}"#, &[("s", false)], &[]),
        (r#""rbd":{"image":"x","monitors":[],"secretRef":{"name":"s"}}"#, &[("s", false)], &[]),
        (r#""scaleIO":{"gateway":"x","system":"y","secretRef":{"name":"s"}}"#, &[("s", false)], &[]),
        (r#""iscsi":{"iqn":"x","lun":0,"targetPortal":"y","secretRef":{"name":"s"}}"#, &[("s", false)], &[]),
        (r#""storageos":{"secretRef":{"name":"s"}}"#, &[("s", false)], &[]),
        (r#""csi":{"driver":"x","nodePublishSecretRef":{"name":"s"}}"#, &[("s", false)], &[]),
        (r#""csi":{"driver":"x"}"#, &[], &[]),
        (r#""emptyDir":{}"#, &[], &[]),
        (r#""persistentVolumeClaim":{"claimName":"x"}"#, &[], &[]),
        (
            r#""projected":{"sources":[{"secret":{"name":"s1"}},{"configMap":{"name":"c1","optional":true}},
                {"secret":{"name":"s2","optional":true}},{"configMap":{"name":"c2"}},{"secret":{}},{"configMap":{}},
                {"downwardAPI":{}},{"serviceAccountToken":{"path":"x"}}]}"#,
            &[("s1", false), ("s2", true)],
            &[("c1", true), ("c2", false)],
        ),
    ];
    for (source, secrets, config_maps) in table {
        check(&volume(source), secrets, config_maps);
    }
}

#[test]
fn volumes_whose_reference_is_absent_or_empty() {
    for source in [
        r#""azureFile":{"secretName":"","shareName":"x"}"#,
        r#""cephfs":{"monitors":[]}"#,
        r#""cinder":{"volumeID":"x"}"#,
        r#""flexVolume":{"driver":"x"}"#,
        r#""rbd":{"image":"x","monitors":[]}"#,
        r#""scaleIO":{"gateway":"x","system":"y","secretRef":{}}"#,
        r#""iscsi":{"iqn":"x","lun":0,"targetPortal":"y"}"#,
        r#""storageos":{}"#,
        r#""csi":{"driver":"x","nodePublishSecretRef":{"name":""}}"#,
        r#""projected":{}"#,
    ] {
        check(&volume(source), &[], &[]);
    }
}

#[test]
fn of_a_volume_with_several_sources_the_first_of_the_kubelets_order_counts() {
    let sources = [
        r#""azureFile":{"secretName":"azure","shareName":"x"}"#,
        r#""cephfs":{"monitors":[],"secretRef":{"name":"cephfs"}}"#,
        r#""cinder":{"volumeID":"x","secretRef":{"name":"cinder"}}"#,
        r#""flexVolume":{"driver":"x","secretRef":{"name":"flex"}}"#,
        r#""projected":{"sources":[{"secret":{"name":"projected"}}]}"#,
        r#""rbd":{"image":"x","monitors":[],"secretRef":{"name":"rbd"}}"#,
        r#""secret":{"secretName":"secret"}"#,
        r#""scaleIO":{"gateway":"x","system":"y","secretRef":{"name":"scaleio"}}"#,
        r#""iscsi":{"iqn":"x","lun":0,"targetPortal":"y","secretRef":{"name":"iscsi"}}"#,
        r#""storageos":{"secretRef":{"name":"storageos"}}"#,
        r#""csi":{"driver":"x","nodePublishSecretRef":{"name":"csi"}}"#,
    ];
    let names =
        ["azure", "cephfs", "cinder", "flex", "projected", "rbd", "secret", "scaleio", "iscsi", "storageos", "csi"];
    for (first, name) in names.into_iter().enumerate() {
        let pod = pod(&volume(&sources[first..].join(",")));
        assert_eq!(secrets(&pod).iter().map(|it| it.name).collect::<Vec<_>>(), [name]);
    }
    // A source without a reference hides the ones after it, too.
    check(&volume(r#""cephfs":{"monitors":[]},"secret":{"secretName":"s"}"#), &[], &[]);
    let both = r#""projected":{"sources":[{"configMap":{"name":"projected"}}]},"configMap":{"name":"plain"}"#;
    check(&volume(both), &[], &[("projected", false)]);
    check(&volume(r#""projected":{},"configMap":{"name":"plain"}"#), &[], &[]);
}

/// The environment of a container: two secrets and two config maps, one of each optional, with `of` in their names.
fn container(of: &str) -> String {
    format!(
        r#"{{"name":"c","envFrom":[{{"secretRef":{{"name":"{of}-s1"}}}},{{"configMapRef":{{"name":"{of}-c1","optional":true}}}},
            {{"secretRef":{{}}}},{{"configMapRef":{{}}}},{{"prefix":"p"}}],
        "env":[{{"name":"a","valueFrom":{{"secretKeyRef":{{"key":"k","name":"{of}-s2","optional":true}}}}}},
            {{"name":"b","valueFrom":{{"configMapKeyRef":{{"key":"k","name":"{of}-c2"}}}}}},
            {{"name":"c","value":"plain"}},{{"name":"d","valueFrom":{{"fieldRef":{{"fieldPath":"x"}}}}}},
            {{"name":"e","valueFrom":{{"secretKeyRef":{{"key":"k"}}}}}},{{"name":"f","valueFrom":{{"configMapKeyRef":{{"key":"k"}}}}}}]}}"#
    )
}

#[test]
fn environments_of_every_kind_of_container() {
    check(
        &format!(r#""containers":[{}]"#, container("m")),
        &[("m-s1", false), ("m-s2", true)],
        &[("m-c1", true), ("m-c2", false)],
    );
    check(
        &format!(r#""initContainers":[{}]"#, container("i")),
        &[("i-s1", false), ("i-s2", true)],
        &[("i-c1", true), ("i-c2", false)],
    );
    check(
        &format!(r#""ephemeralContainers":[{}]"#, container("e")),
        &[("e-s1", false), ("e-s2", true)],
        &[("e-c1", true), ("e-c2", false)],
    );
}

#[test]
fn all_ways_in_one_pod() {
    let spec = format!(
        r#""imagePullSecrets":[{{"name":"pull"}}],"ephemeralContainers":[{}],"containers":[{},{}],"initContainers":[{}],
        "volumes":[{{"name":"v","secret":{{"secretName":"vol"}}}},{{"name":"w","configMap":{{"name":"vol"}}}}]"#,
        container("e"),
        container("m"),
        container("n"),
        container("i")
    );
    check(
        &spec,
        &[
            ("pull", false),
            ("i-s1", false),
            ("i-s2", true),
            ("m-s1", false),
            ("m-s2", true),
            ("n-s1", false),
            ("n-s2", true),
            ("e-s1", false),
            ("e-s2", true),
            ("vol", false),
        ],
        &[
            ("i-c1", true),
            ("i-c2", false),
            ("m-c1", true),
            ("m-c2", false),
            ("n-c1", true),
            ("n-c2", false),
            ("e-c1", true),
            ("e-c2", false),
            ("vol", false),
        ],
    );
}

#[test]
fn a_pod_without_a_spec_or_metadata() {
    let empty = Pod::default();
    assert!(secrets(&empty).is_empty() && config_maps(&empty).is_empty());
    let nobody = PodIdentity { namespace: "", name: "", uid: "" };
    assert_eq!((Secrets.identity(&empty), ConfigMaps.identity(&empty)), (nobody, nobody));
    let pod: Pod = serde_json::from_str(r#"{"metadata":{"namespace":"a","name":"p","uid":"u"}}"#).unwrap();
    let expected = PodIdentity { namespace: "a", name: "p", uid: "u" };
    assert_eq!((Secrets.identity(&pod), ConfigMaps.identity(&pod)), (expected, expected));
}
