// Written by `cargo xtask differential --bless` from the Go types of k8s.io/api v0.37.2. Do not edit.

use super::{Field, Omit, Range, Shape, Type};

/// The type of each [`Message`](crate::Message), in the order of `Message::ALL`: its `apiVersion`, its `kind`, its place in `TYPES`.
pub(super) const ROOTS: [(&str, &str, u16); 14] = [
    ("v1", "Secret", 0),
    ("v1", "SecretList", 4),
    ("v1", "ConfigMap", 7),
    ("v1", "ConfigMapList", 8),
    ("v1", "Pod", 9),
    ("v1", "PodList", 144),
    ("v1", "Node", 145),
    ("v1", "NodeList", 164),
    ("v1", "Namespace", 165),
    ("v1", "NamespaceList", 169),
    ("v1", "Status", 170),
    ("meta.k8s.io/v1", "PartialObjectMetadata", 173),
    ("meta.k8s.io/v1", "PartialObjectMetadataList", 174),
    ("v1", "WatchEvent", 175),
];

/// Where the fields of each type stand in `FIELDS`.
pub(super) static TYPES: [Range; 176] = [
    Range { first: 0, count: 5 }, // v1.Secret
    Range { first: 5, count: 15 }, // v1.ObjectMeta
    Range { first: 20, count: 6 }, // v1.OwnerReference
    Range { first: 26, count: 7 }, // v1.ManagedFieldsEntry
    Range { first: 33, count: 2 }, // v1.SecretList
    Range { first: 35, count: 5 }, // v1.ListMeta
    Range { first: 40, count: 1 }, // v1.ShardInfo
    Range { first: 41, count: 4 }, // v1.ConfigMap
    Range { first: 45, count: 2 }, // v1.ConfigMapList
    Range { first: 47, count: 3 }, // v1.Pod
    Range { first: 50, count: 43 }, // v1.PodSpec
    Range { first: 93, count: 2 }, // v1.Volume
    Range { first: 95, count: 30 }, // v1.VolumeSource
    Range { first: 125, count: 2 }, // v1.HostPathVolumeSource
    Range { first: 127, count: 3 }, // v1.EmptyDirVolumeSource
    Range { first: 130, count: 4 }, // v1.GCEPersistentDiskVolumeSource
    Range { first: 134, count: 4 }, // v1.AWSElasticBlockStoreVolumeSource
    Range { first: 138, count: 3 }, // v1.GitRepoVolumeSource
    Range { first: 141, count: 5 }, // v1.SecretVolumeSource
    Range { first: 146, count: 4 }, // v1.KeyToPath
    Range { first: 150, count: 3 }, // v1.NFSVolumeSource
    Range { first: 153, count: 11 }, // v1.ISCSIVolumeSource
    Range { first: 164, count: 1 }, // v1.LocalObjectReference
    Range { first: 165, count: 3 }, // v1.GlusterfsVolumeSource
    Range { first: 168, count: 2 }, // v1.PersistentVolumeClaimVolumeSource
    Range { first: 170, count: 8 }, // v1.RBDVolumeSource
    Range { first: 178, count: 5 }, // v1.FlexVolumeSource
    Range { first: 183, count: 4 }, // v1.CinderVolumeSource
    Range { first: 187, count: 6 }, // v1.CephFSVolumeSource
    Range { first: 193, count: 2 }, // v1.FlockerVolumeSource
    Range { first: 195, count: 3 }, // v1.DownwardAPIVolumeSource
    Range { first: 198, count: 5 }, // v1.DownwardAPIVolumeFile
    Range { first: 203, count: 2 }, // v1.ObjectFieldSelector
    Range { first: 205, count: 3 }, // v1.ResourceFieldSelector
    Range { first: 208, count: 5 }, // v1.FCVolumeSource
    Range { first: 213, count: 3 }, // v1.AzureFileVolumeSource
    Range { first: 216, count: 5 }, // v1.ConfigMapVolumeSource
    Range { first: 221, count: 4 }, // v1.VsphereVirtualDiskVolumeSource
    Range { first: 225, count: 6 }, // v1.QuobyteVolumeSource
    Range { first: 231, count: 6 }, // v1.AzureDiskVolumeSource
    Range { first: 237, count: 2 }, // v1.PhotonPersistentDiskVolumeSource
    Range { first: 239, count: 3 }, // v1.ProjectedVolumeSource
    Range { first: 242, count: 6 }, // v1.VolumeProjection
    Range { first: 248, count: 3 }, // v1.SecretProjection
    Range { first: 251, count: 1 }, // v1.DownwardAPIProjection
    Range { first: 252, count: 3 }, // v1.ConfigMapProjection
    Range { first: 255, count: 4 }, // v1.ServiceAccountTokenProjection
    Range { first: 259, count: 6 }, // v1.ClusterTrustBundleProjection
    Range { first: 265, count: 2 }, // v1.LabelSelector
    Range { first: 267, count: 3 }, // v1.LabelSelectorRequirement
    Range { first: 270, count: 8 }, // v1.PodCertificateProjection
    Range { first: 278, count: 3 }, // v1.PortworxVolumeSource
    Range { first: 281, count: 10 }, // v1.ScaleIOVolumeSource
    Range { first: 291, count: 5 }, // v1.StorageOSVolumeSource
    Range { first: 296, count: 5 }, // v1.CSIVolumeSource
    Range { first: 301, count: 1 }, // v1.EphemeralVolumeSource
    Range { first: 302, count: 2 }, // v1.PersistentVolumeClaimTemplate
    Range { first: 304, count: 9 }, // v1.PersistentVolumeClaimSpec
    Range { first: 313, count: 2 }, // v1.VolumeResourceRequirements
    Range { first: 315, count: 3 }, // v1.TypedLocalObjectReference
    Range { first: 318, count: 4 }, // v1.TypedObjectReference
    Range { first: 322, count: 2 }, // v1.ImageVolumeSource
    Range { first: 324, count: 25 }, // v1.Container
    Range { first: 349, count: 5 }, // v1.ContainerPort
    Range { first: 354, count: 3 }, // v1.EnvFromSource
    Range { first: 357, count: 2 }, // v1.ConfigMapEnvSource
    Range { first: 359, count: 2 }, // v1.SecretEnvSource
    Range { first: 361, count: 3 }, // v1.EnvVar
    Range { first: 364, count: 5 }, // v1.EnvVarSource
    Range { first: 369, count: 3 }, // v1.ConfigMapKeySelector
    Range { first: 372, count: 3 }, // v1.SecretKeySelector
    Range { first: 375, count: 4 }, // v1.FileKeySelector
    Range { first: 379, count: 3 }, // v1.ResourceRequirements
    Range { first: 382, count: 2 }, // v1.ResourceClaim
    Range { first: 384, count: 2 }, // v1.ContainerResizePolicy
    Range { first: 386, count: 2 }, // v1.ContainerRestartRule
    Range { first: 388, count: 2 }, // v1.ContainerRestartRuleOnExitCodes
    Range { first: 390, count: 8 }, // v1.VolumeMount
    Range { first: 398, count: 2 }, // v1.VolumeDevice
    Range { first: 400, count: 7 }, // v1.Probe
    Range { first: 407, count: 4 }, // v1.ProbeHandler
    Range { first: 411, count: 1 }, // v1.ExecAction
    Range { first: 412, count: 6 }, // v1.HTTPGetAction
    Range { first: 418, count: 2 }, // v1.HTTPHeader
    Range { first: 420, count: 2 }, // v1.TCPSocketAction
    Range { first: 422, count: 3 }, // v1.GRPCAction
    Range { first: 425, count: 3 }, // v1.Lifecycle
    Range { first: 428, count: 4 }, // v1.LifecycleHandler
    Range { first: 432, count: 1 }, // v1.SleepAction
    Range { first: 433, count: 12 }, // v1.SecurityContext
    Range { first: 445, count: 2 }, // v1.Capabilities
    Range { first: 447, count: 4 }, // v1.SELinuxOptions
    Range { first: 451, count: 4 }, // v1.WindowsSecurityContextOptions
    Range { first: 455, count: 2 }, // v1.SeccompProfile
    Range { first: 457, count: 2 }, // v1.AppArmorProfile
    Range { first: 459, count: 2 }, // v1.EphemeralContainer
    Range { first: 461, count: 25 }, // v1.EphemeralContainerCommon
    Range { first: 486, count: 13 }, // v1.PodSecurityContext
    Range { first: 499, count: 2 }, // v1.Sysctl
    Range { first: 501, count: 3 }, // v1.Affinity
    Range { first: 504, count: 2 }, // v1.NodeAffinity
    Range { first: 506, count: 1 }, // v1.NodeSelector
    Range { first: 507, count: 2 }, // v1.NodeSelectorTerm
    Range { first: 509, count: 3 }, // v1.NodeSelectorRequirement
    Range { first: 512, count: 2 }, // v1.PreferredSchedulingTerm
    Range { first: 514, count: 2 }, // v1.PodAffinity
    Range { first: 516, count: 6 }, // v1.PodAffinityTerm
    Range { first: 522, count: 2 }, // v1.WeightedPodAffinityTerm
    Range { first: 524, count: 2 }, // v1.PodAntiAffinity
    Range { first: 526, count: 5 }, // v1.Toleration
    Range { first: 531, count: 2 }, // v1.HostAlias
    Range { first: 533, count: 3 }, // v1.PodDNSConfig
    Range { first: 536, count: 2 }, // v1.PodDNSConfigOption
    Range { first: 538, count: 1 }, // v1.PodReadinessGate
    Range { first: 539, count: 8 }, // v1.TopologySpreadConstraint
    Range { first: 547, count: 1 }, // v1.PodOS
    Range { first: 548, count: 1 }, // v1.PodSchedulingGate
    Range { first: 549, count: 3 }, // v1.PodResourceClaim
    Range { first: 552, count: 1 }, // v1.PodSchedulingGroup
    Range { first: 553, count: 2 }, // v1.EvictionResponder
    Range { first: 555, count: 22 }, // v1.PodStatus
    Range { first: 577, count: 7 }, // v1.PodCondition
    Range { first: 584, count: 1 }, // v1.HostIP
    Range { first: 585, count: 1 }, // v1.PodIP
    Range { first: 586, count: 15 }, // v1.ContainerStatus
    Range { first: 601, count: 3 }, // v1.ContainerState
    Range { first: 604, count: 2 }, // v1.ContainerStateWaiting
    Range { first: 606, count: 1 }, // v1.ContainerStateRunning
    Range { first: 607, count: 7 }, // v1.ContainerStateTerminated
    Range { first: 614, count: 5 }, // v1.VolumeMountStatus
    Range { first: 619, count: 1 }, // v1.VolumeStatus
    Range { first: 620, count: 1 }, // v1.ImageVolumeStatus
    Range { first: 621, count: 1 }, // v1.ContainerUser
    Range { first: 622, count: 3 }, // v1.LinuxContainerUser
    Range { first: 625, count: 2 }, // v1.ResourceStatus
    Range { first: 627, count: 3 }, // v1.ResourceHealth
    Range { first: 630, count: 2 }, // v1.PodResourceClaimStatus
    Range { first: 632, count: 2 }, // v1.PodExtendedResourceClaimStatus
    Range { first: 634, count: 3 }, // v1.ContainerExtendedResourceRequest
    Range { first: 637, count: 4 }, // v1.NodeAllocatableResourceClaimStatus
    Range { first: 641, count: 2 }, // v1.NodeAllocatableMappedResources
    Range { first: 643, count: 3 }, // v1.NodeAllocatableOverheadResources
    Range { first: 646, count: 3 }, // v1.PodVolumeHealth
    Range { first: 649, count: 3 }, // v1.VolumeHealthCondition
    Range { first: 652, count: 2 }, // v1.PodList
    Range { first: 654, count: 3 }, // v1.Node
    Range { first: 657, count: 8 }, // v1.NodeSpec
    Range { first: 665, count: 4 }, // v1.Taint
    Range { first: 669, count: 1 }, // v1.NodeConfigSource
    Range { first: 670, count: 5 }, // v1.ConfigMapNodeConfigSource
    Range { first: 675, count: 1 }, // v1.NodePodPreemptionPolicy
    Range { first: 676, count: 14 }, // v1.NodeStatus
    Range { first: 690, count: 6 }, // v1.NodeCondition
    Range { first: 696, count: 2 }, // v1.NodeAddress
    Range { first: 698, count: 1 }, // v1.NodeDaemonEndpoints
    Range { first: 699, count: 1 }, // v1.DaemonEndpoint
    Range { first: 700, count: 12 }, // v1.NodeSystemInfo
    Range { first: 712, count: 1 }, // v1.NodeSwapStatus
    Range { first: 713, count: 2 }, // v1.ContainerImage
    Range { first: 715, count: 2 }, // v1.AttachedVolume
    Range { first: 717, count: 4 }, // v1.NodeConfigStatus
    Range { first: 721, count: 2 }, // v1.NodeRuntimeHandler
    Range { first: 723, count: 2 }, // v1.NodeRuntimeHandlerFeatures
    Range { first: 725, count: 1 }, // v1.NodeFeatures
    Range { first: 726, count: 2 }, // v1.NodeList
    Range { first: 728, count: 3 }, // v1.Namespace
    Range { first: 731, count: 1 }, // v1.NamespaceSpec
    Range { first: 732, count: 2 }, // v1.NamespaceStatus
    Range { first: 734, count: 5 }, // v1.NamespaceCondition
    Range { first: 739, count: 2 }, // v1.NamespaceList
    Range { first: 741, count: 6 }, // v1.Status
    Range { first: 747, count: 6 }, // v1.StatusDetails
    Range { first: 753, count: 3 }, // v1.StatusCause
    Range { first: 756, count: 1 }, // v1.PartialObjectMetadata
    Range { first: 757, count: 2 }, // v1.PartialObjectMetadataList
    Range { first: 759, count: 2 }, // v1.WatchEvent
];

/// The fields of each type, in the order of Go's JSON.
pub(super) static FIELDS: [Field; 761] = [
    // v1.Secret
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(1)), // metadata
    Field::new(3384, 9, 5, Shape::Pointer, Omit::Empty, Type::Bool), // immutable
    Field::new(2265, 4, 2, Shape::Map, Omit::Empty, Type::Bytes), // data
    Field::new(3197, 10, 4, Shape::Map, Omit::Empty, Type::String), // stringData
    Field::new(4322, 4, 3, Shape::Value, Omit::Empty, Type::String), // type
    // v1.ObjectMeta
    Field::new(1286, 4, 1, Shape::Value, Omit::Empty, Type::String), // name
    Field::new(2495, 12, 2, Shape::Value, Omit::Empty, Type::String), // generateName
    Field::new(1286, 9, 3, Shape::Value, Omit::Empty, Type::String), // namespace
    Field::new(3840, 8, 4, Shape::Value, Omit::Empty, Type::String), // selfLink
    Field::new(4344, 3, 5, Shape::Value, Omit::Empty, Type::String), // uid
    Field::new(1909, 15, 6, Shape::Value, Omit::Empty, Type::String), // resourceVersion
    Field::new(3047, 10, 7, Shape::Value, Omit::Empty, Type::Int64), // generation
    Field::new(1184, 17, 8, Shape::Value, Omit::Zero, Type::Time), // creationTimestamp
    Field::new(1201, 17, 9, Shape::Pointer, Omit::Empty, Type::Time), // deletionTimestamp
    Field::new(213, 26, 10, Shape::Pointer, Omit::Empty, Type::Int64), // deletionGracePeriodSeconds
    Field::new(4119, 6, 11, Shape::Map, Omit::Empty, Type::String), // labels
    Field::new(2685, 11, 12, Shape::Map, Omit::Empty, Type::String), // annotations
    Field::new(1849, 15, 13, Shape::List, Omit::Empty, Type::Message(2)), // ownerReferences
    Field::new(3017, 10, 14, Shape::List, Omit::Empty, Type::String), // finalizers
    Field::new(2356, 13, 17, Shape::List, Omit::Empty, Type::Message(3)), // managedFields
    // v1.OwnerReference
    Field::new(2927, 10, 5, Shape::Value, Omit::Never, Type::String), // apiVersion
    Field::new(4290, 4, 1, Shape::Value, Omit::Never, Type::String), // kind
    Field::new(1286, 4, 3, Shape::Value, Omit::Never, Type::String), // name
    Field::new(4344, 3, 4, Shape::Value, Omit::Never, Type::String), // uid
    Field::new(2967, 10, 6, Shape::Pointer, Omit::Empty, Type::Bool), // controller
    Field::new(970, 18, 7, Shape::Pointer, Omit::Empty, Type::Bool), // blockOwnerDeletion
    // v1.ManagedFieldsEntry
    Field::new(3968, 7, 1, Shape::Value, Omit::Empty, Type::String), // manager
    Field::new(3429, 9, 2, Shape::Value, Omit::Empty, Type::String), // operation
    Field::new(2927, 10, 3, Shape::Value, Omit::Empty, Type::String), // apiVersion
    Field::new(448, 4, 4, Shape::Pointer, Omit::Empty, Type::Time), // time
    Field::new(2997, 10, 6, Shape::Value, Omit::Empty, Type::String), // fieldsType
    Field::new(3680, 8, 7, Shape::Pointer, Omit::Empty, Type::RawJson), // fieldsV1
    Field::new(2894, 11, 8, Shape::Value, Omit::Empty, Type::String), // subresource
    // v1.SecretList
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(5)), // metadata
    Field::new(4225, 5, 2, Shape::List, Omit::Never, Type::Message(0)), // items
    // v1.ListMeta
    Field::new(3840, 8, 1, Shape::Value, Omit::Empty, Type::String), // selfLink
    Field::new(1909, 15, 2, Shape::Value, Omit::Empty, Type::String), // resourceVersion
    Field::new(3640, 8, 3, Shape::Value, Omit::Empty, Type::String), // continue
    Field::new(1096, 18, 4, Shape::Pointer, Omit::Empty, Type::Int64), // remainingItemCount
    Field::new(3492, 9, 5, Shape::Pointer, Omit::Empty, Type::Message(6)), // shardInfo
    // v1.ShardInfo
    Field::new(3832, 8, 1, Shape::Value, Omit::Never, Type::String), // selector
    // v1.ConfigMap
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(1)), // metadata
    Field::new(3384, 9, 4, Shape::Pointer, Omit::Empty, Type::Bool), // immutable
    Field::new(2265, 4, 2, Shape::Map, Omit::Empty, Type::String), // data
    Field::new(2937, 10, 3, Shape::Map, Omit::Empty, Type::Bytes), // binaryData
    // v1.ConfigMapList
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(5)), // metadata
    Field::new(4225, 5, 2, Shape::List, Omit::Never, Type::Message(7)), // items
    // v1.Pod
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(1)), // metadata
    Field::new(4314, 4, 2, Shape::Value, Omit::Empty, Type::Message(10)), // spec
    Field::new(4185, 6, 3, Shape::Value, Omit::Empty, Type::Message(120)), // status
    // v1.PodSpec
    Field::new(2029, 7, 1, Shape::List, Omit::Empty, Type::Message(11)), // volumes
    Field::new(2044, 14, 20, Shape::List, Omit::Empty, Type::Message(62)), // initContainers
    Field::new(2957, 10, 2, Shape::List, Omit::Never, Type::Message(62)), // containers
    Field::new(818, 19, 34, Shape::List, Omit::Empty, Type::Message(95)), // ephemeralContainers
    Field::new(1114, 13, 3, Shape::Value, Omit::Empty, Type::String), // restartPolicy
    Field::new(129, 29, 4, Shape::Pointer, Omit::Empty, Type::Int64), // terminationGracePeriodSeconds
    Field::new(593, 21, 5, Shape::Pointer, Omit::Empty, Type::Int64), // activeDeadlineSeconds
    Field::new(3321, 9, 6, Shape::Value, Omit::Empty, Type::String), // dnsPolicy
    Field::new(1303, 12, 7, Shape::Map, Omit::Empty, Type::String), // nodeSelector
    Field::new(1132, 18, 8, Shape::Value, Omit::Empty, Type::String), // serviceAccountName
    Field::new(913, 14, 9, Shape::Value, Omit::Empty, Type::String), // serviceAccount
    Field::new(158, 28, 21, Shape::Pointer, Omit::Empty, Type::Bool), // automountServiceAccountToken
    Field::new(3736, 8, 10, Shape::Value, Omit::Empty, Type::String), // nodeName
    Field::new(2784, 11, 11, Shape::Value, Omit::Empty, Type::Bool), // hostNetwork
    Field::new(3926, 7, 12, Shape::Value, Omit::Empty, Type::Bool), // hostPID
    Field::new(3912, 7, 13, Shape::Value, Omit::Empty, Type::Bool), // hostIPC
    Field::new(677, 21, 27, Shape::Pointer, Omit::Empty, Type::Bool), // shareProcessNamespace
    Field::new(1969, 15, 14, Shape::Pointer, Omit::Empty, Type::Message(97)), // securityContext
    Field::new(1536, 16, 15, Shape::List, Omit::Empty, Type::Message(22)), // imagePullSecrets
    Field::new(1520, 8, 16, Shape::Value, Omit::Empty, Type::String), // hostname
    Field::new(3564, 9, 17, Shape::Value, Omit::Empty, Type::String), // subdomain
    Field::new(3600, 8, 18, Shape::Pointer, Omit::Empty, Type::Message(99)), // affinity
    Field::new(2395, 13, 19, Shape::Value, Omit::Empty, Type::String), // schedulerName
    Field::new(2905, 11, 22, Shape::List, Omit::Empty, Type::Message(109)), // tolerations
    Field::new(2773, 11, 23, Shape::List, Omit::Empty, Type::Message(110)), // hostAliases
    Field::new(1337, 17, 24, Shape::Value, Omit::Empty, Type::String), // priorityClassName
    Field::new(1337, 8, 25, Shape::Pointer, Omit::Empty, Type::Int32), // priority
    Field::new(3312, 9, 26, Shape::Pointer, Omit::Empty, Type::Message(111)), // dnsConfig
    Field::new(2114, 14, 28, Shape::List, Omit::Empty, Type::Message(113)), // readinessGates
    Field::new(1696, 16, 29, Shape::Pointer, Omit::Empty, Type::String), // runtimeClassName
    Field::new(1006, 18, 30, Shape::Pointer, Omit::Empty, Type::Bool), // enableServiceLinks
    Field::new(1648, 16, 31, Shape::Pointer, Omit::Empty, Type::String), // preemptionPolicy
    Field::new(3760, 8, 32, Shape::Map, Omit::Empty, Type::Quantity), // overhead
    Field::new(290, 25, 33, Shape::List, Omit::Empty, Type::Message(114)), // topologySpreadConstraints
    Field::new(1388, 17, 35, Shape::Pointer, Omit::Empty, Type::Bool), // setHostnameAsFQDN
    Field::new(1392, 2, 36, Shape::Pointer, Omit::Empty, Type::Message(115)), // os
    Field::new(3366, 9, 37, Shape::Pointer, Omit::Empty, Type::Bool), // hostUsers
    Field::new(1939, 15, 38, Shape::List, Omit::Empty, Type::Message(116)), // schedulingGates
    Field::new(2142, 14, 39, Shape::List, Omit::Empty, Type::Message(117)), // resourceClaims
    Field::new(3474, 9, 40, Shape::Pointer, Omit::Empty, Type::Message(72)), // resources
    Field::new(1520, 16, 41, Shape::Pointer, Omit::Empty, Type::String), // hostnameOverride
    Field::new(1954, 15, 43, Shape::Pointer, Omit::Empty, Type::Message(118)), // schedulingGroup
    Field::new(1024, 18, 44, Shape::List, Omit::Empty, Type::Message(119)), // evictionResponders
    // v1.Volume
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(0, 0, 2, Shape::Value, Omit::Never, Type::Message(12)), // (inlined)
    // v1.VolumeSource
    Field::new(3688, 8, 1, Shape::Pointer, Omit::Empty, Type::Message(13)), // hostPath
    Field::new(3656, 8, 2, Shape::Pointer, Omit::Empty, Type::Message(14)), // emptyDir
    Field::new(1235, 17, 3, Shape::Pointer, Omit::Empty, Type::Message(15)), // gcePersistentDisk
    Field::new(698, 20, 4, Shape::Pointer, Omit::Empty, Type::Message(16)), // awsElasticBlockStore
    Field::new(3905, 7, 5, Shape::Pointer, Omit::Empty, Type::Message(17)), // gitRepo
    Field::new(2579, 6, 6, Shape::Pointer, Omit::Empty, Type::Message(18)), // secret
    Field::new(4335, 3, 7, Shape::Pointer, Omit::Empty, Type::Message(20)), // nfs
    Field::new(2058, 5, 8, Shape::Pointer, Omit::Empty, Type::Message(21)), // iscsi
    Field::new(3357, 9, 9, Shape::Pointer, Omit::Empty, Type::Message(23)), // glusterfs
    Field::new(635, 21, 10, Shape::Pointer, Omit::Empty, Type::Message(24)), // persistentVolumeClaim
    Field::new(4338, 3, 11, Shape::Pointer, Omit::Empty, Type::Message(25)), // rbd
    Field::new(3037, 10, 12, Shape::Pointer, Omit::Empty, Type::Message(26)), // flexVolume
    Field::new(4083, 6, 13, Shape::Pointer, Omit::Empty, Type::Message(27)), // cinder
    Field::new(4077, 6, 14, Shape::Pointer, Omit::Empty, Type::Message(28)), // cephfs
    Field::new(3891, 7, 15, Shape::Pointer, Omit::Empty, Type::Message(29)), // flocker
    Field::new(2762, 11, 16, Shape::Pointer, Omit::Empty, Type::Message(30)), // downwardAPI
    Field::new(2482, 2, 17, Shape::Pointer, Omit::Empty, Type::Message(34)), // fc
    Field::new(3285, 9, 18, Shape::Pointer, Omit::Empty, Type::Message(35)), // azureFile
    Field::new(1774, 9, 19, Shape::Pointer, Omit::Empty, Type::Message(36)), // configMap
    Field::new(2434, 13, 20, Shape::Pointer, Omit::Empty, Type::Message(37)), // vsphereVolume
    Field::new(4024, 7, 21, Shape::Pointer, Omit::Empty, Type::Message(38)), // quobyte
    Field::new(3276, 9, 22, Shape::Pointer, Omit::Empty, Type::Message(39)), // azureDisk
    Field::new(798, 20, 23, Shape::Pointer, Omit::Empty, Type::Message(40)), // photonPersistentDisk
    Field::new(3465, 9, 26, Shape::Pointer, Omit::Empty, Type::Message(41)), // projected
    Field::new(2100, 14, 24, Shape::Pointer, Omit::Empty, Type::Message(51)), // portworxVolume
    Field::new(4031, 7, 25, Shape::Pointer, Omit::Empty, Type::Message(52)), // scaleIO
    Field::new(3555, 9, 27, Shape::Pointer, Omit::Empty, Type::Message(53)), // storageos
    Field::new(2060, 3, 28, Shape::Pointer, Omit::Empty, Type::Message(54)), // csi
    Field::new(239, 9, 29, Shape::Pointer, Omit::Empty, Type::Message(55)), // ephemeral
    Field::new(1536, 5, 30, Shape::Pointer, Omit::Empty, Type::Message(61)), // image
    // v1.HostPathVolumeSource
    Field::new(4298, 4, 1, Shape::Value, Omit::Never, Type::String), // path
    Field::new(4322, 4, 2, Shape::Pointer, Omit::Empty, Type::String), // type
    // v1.EmptyDirVolumeSource
    Field::new(4131, 6, 1, Shape::Value, Omit::Empty, Type::String), // medium
    Field::new(3519, 9, 2, Shape::Pointer, Omit::Empty, Type::Quantity), // sizeLimit
    Field::new(4294, 4, 3, Shape::Pointer, Omit::Empty, Type::Int32), // mode
    // v1.GCEPersistentDiskVolumeSource
    Field::new(4143, 6, 1, Shape::Value, Omit::Never, Type::String), // pdName
    Field::new(4107, 6, 2, Shape::Value, Omit::Empty, Type::String), // fsType
    Field::new(3438, 9, 3, Shape::Value, Omit::Empty, Type::Int32), // partition
    Field::new(527, 8, 4, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    // v1.AWSElasticBlockStoreVolumeSource
    Field::new(3848, 8, 1, Shape::Value, Omit::Never, Type::String), // volumeID
    Field::new(4107, 6, 2, Shape::Value, Omit::Empty, Type::String), // fsType
    Field::new(3438, 9, 3, Shape::Value, Omit::Empty, Type::Int32), // partition
    Field::new(527, 8, 4, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    // v1.GitRepoVolumeSource
    Field::new(3117, 10, 1, Shape::Value, Omit::Never, Type::String), // repository
    Field::new(3816, 8, 2, Shape::Value, Omit::Empty, Type::String), // revision
    Field::new(3303, 9, 3, Shape::Value, Omit::Empty, Type::String), // directory
    // v1.SecretVolumeSource
    Field::new(3157, 10, 1, Shape::Value, Omit::Empty, Type::String), // secretName
    Field::new(4225, 5, 2, Shape::List, Omit::Empty, Type::Message(19)), // items
    Field::new(2740, 11, 3, Shape::Pointer, Omit::Empty, Type::Int32), // defaultMode
    Field::new(3752, 8, 4, Shape::Pointer, Omit::Empty, Type::Bool), // optional
    Field::new(2751, 11, 5, Shape::Pointer, Omit::Empty, Type::Int64), // defaultUser
    // v1.KeyToPath
    Field::new(3947, 3, 1, Shape::Value, Omit::Never, Type::String), // key
    Field::new(4298, 4, 2, Shape::Value, Omit::Never, Type::String), // path
    Field::new(4294, 4, 3, Shape::Pointer, Omit::Empty, Type::Int32), // mode
    Field::new(1999, 4, 4, Shape::Pointer, Omit::Empty, Type::Int64), // user
    // v1.NFSVolumeSource
    Field::new(2843, 6, 1, Shape::Value, Omit::Never, Type::String), // server
    Field::new(4298, 4, 2, Shape::Value, Omit::Never, Type::String), // path
    Field::new(527, 8, 3, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    // v1.ISCSIVolumeSource
    Field::new(2603, 12, 1, Shape::Value, Omit::Never, Type::String), // targetPortal
    Field::new(4329, 3, 2, Shape::Value, Omit::Never, Type::String), // iqn
    Field::new(4332, 3, 3, Shape::Value, Omit::Never, Type::Int32), // lun
    Field::new(2058, 14, 4, Shape::Value, Omit::Empty, Type::String), // iscsiInterface
    Field::new(4107, 6, 5, Shape::Value, Omit::Empty, Type::String), // fsType
    Field::new(527, 8, 6, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    Field::new(4010, 7, 7, Shape::List, Omit::Empty, Type::String), // portals
    Field::new(1150, 17, 8, Shape::Value, Omit::Empty, Type::Bool), // chapAuthDiscovery
    Field::new(1759, 15, 11, Shape::Value, Omit::Empty, Type::Bool), // chapAuthSession
    Field::new(3483, 9, 10, Shape::Pointer, Omit::Empty, Type::Message(22)), // secretRef
    Field::new(2278, 13, 12, Shape::Pointer, Omit::Empty, Type::String), // initiatorName
    // v1.LocalObjectReference
    Field::new(1286, 4, 1, Shape::Value, Omit::Empty, Type::String), // name
    // v1.GlusterfsVolumeSource
    Field::new(3330, 9, 1, Shape::Value, Omit::Never, Type::String), // endpoints
    Field::new(4298, 4, 2, Shape::Value, Omit::Never, Type::String), // path
    Field::new(527, 8, 3, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    // v1.PersistentVolumeClaimVolumeSource
    Field::new(3294, 9, 1, Shape::Value, Omit::Never, Type::String), // claimName
    Field::new(527, 8, 2, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    // v1.RBDVolumeSource
    Field::new(3720, 8, 1, Shape::List, Omit::Never, Type::String), // monitors
    Field::new(1536, 5, 2, Shape::Value, Omit::Never, Type::String), // image
    Field::new(4107, 6, 3, Shape::Value, Omit::Empty, Type::String), // fsType
    Field::new(4306, 4, 4, Shape::Value, Omit::Empty, Type::String), // pool
    Field::new(1999, 4, 5, Shape::Value, Omit::Empty, Type::String), // user
    Field::new(3961, 7, 6, Shape::Value, Omit::Empty, Type::String), // keyring
    Field::new(3483, 9, 7, Shape::Pointer, Omit::Empty, Type::Message(22)), // secretRef
    Field::new(527, 8, 8, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    // v1.FlexVolumeSource
    Field::new(4095, 6, 1, Shape::Value, Omit::Never, Type::String), // driver
    Field::new(4107, 6, 2, Shape::Value, Omit::Empty, Type::String), // fsType
    Field::new(3483, 9, 3, Shape::Pointer, Omit::Empty, Type::Message(22)), // secretRef
    Field::new(527, 8, 4, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    Field::new(3996, 7, 5, Shape::Map, Omit::Empty, Type::String), // options
    // v1.CinderVolumeSource
    Field::new(3848, 8, 1, Shape::Value, Omit::Never, Type::String), // volumeID
    Field::new(4107, 6, 2, Shape::Value, Omit::Empty, Type::String), // fsType
    Field::new(527, 8, 3, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    Field::new(3483, 9, 4, Shape::Pointer, Omit::Empty, Type::Message(22)), // secretRef
    // v1.CephFSVolumeSource
    Field::new(3720, 8, 1, Shape::List, Omit::Never, Type::String), // monitors
    Field::new(4298, 4, 2, Shape::Value, Omit::Empty, Type::String), // path
    Field::new(1999, 4, 3, Shape::Value, Omit::Empty, Type::String), // user
    Field::new(3147, 10, 4, Shape::Value, Omit::Empty, Type::String), // secretFile
    Field::new(3483, 9, 5, Shape::Pointer, Omit::Empty, Type::Message(22)), // secretRef
    Field::new(527, 8, 6, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    // v1.FlockerVolumeSource
    Field::new(2718, 11, 1, Shape::Value, Omit::Empty, Type::String), // datasetName
    Field::new(2729, 11, 2, Shape::Value, Omit::Empty, Type::String), // datasetUUID
    // v1.DownwardAPIVolumeSource
    Field::new(4225, 5, 1, Shape::List, Omit::Empty, Type::Message(31)), // items
    Field::new(2740, 11, 2, Shape::Pointer, Omit::Empty, Type::Int32), // defaultMode
    Field::new(2751, 11, 3, Shape::Pointer, Omit::Empty, Type::Int64), // defaultUser
    // v1.DownwardAPIVolumeFile
    Field::new(4298, 4, 1, Shape::Value, Omit::Never, Type::String), // path
    Field::new(3672, 8, 2, Shape::Pointer, Omit::Empty, Type::Message(32)), // fieldRef
    Field::new(1680, 16, 3, Shape::Pointer, Omit::Empty, Type::Message(33)), // resourceFieldRef
    Field::new(4294, 4, 4, Shape::Pointer, Omit::Empty, Type::Int32), // mode
    Field::new(1999, 4, 5, Shape::Pointer, Omit::Empty, Type::Int64), // user
    // v1.ObjectFieldSelector
    Field::new(2927, 10, 1, Shape::Value, Omit::Empty, Type::String), // apiVersion
    Field::new(3348, 9, 2, Shape::Value, Omit::Never, Type::String), // fieldPath
    // v1.ResourceFieldSelector
    Field::new(2239, 13, 1, Shape::Value, Omit::Empty, Type::String), // containerName
    Field::new(265, 8, 2, Shape::Value, Omit::Never, Type::String), // resource
    Field::new(3877, 7, 3, Shape::Value, Omit::Empty, Type::Quantity), // divisor
    // v1.FCVolumeSource
    Field::new(3217, 10, 1, Shape::List, Omit::Empty, Type::String), // targetWWNs
    Field::new(4332, 3, 2, Shape::Pointer, Omit::Empty, Type::Int32), // lun
    Field::new(4107, 6, 3, Shape::Value, Omit::Empty, Type::String), // fsType
    Field::new(527, 8, 4, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    Field::new(4265, 5, 5, Shape::List, Omit::Empty, Type::String), // wwids
    // v1.AzureFileVolumeSource
    Field::new(3157, 10, 1, Shape::Value, Omit::Never, Type::String), // secretName
    Field::new(3501, 9, 2, Shape::Value, Omit::Never, Type::String), // shareName
    Field::new(527, 8, 3, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    // v1.ConfigMapVolumeSource
    Field::new(0, 0, 1, Shape::Value, Omit::Never, Type::Message(22)), // (inlined)
    Field::new(4225, 5, 2, Shape::List, Omit::Empty, Type::Message(19)), // items
    Field::new(2740, 11, 3, Shape::Pointer, Omit::Empty, Type::Int32), // defaultMode
    Field::new(3752, 8, 4, Shape::Pointer, Omit::Empty, Type::Bool), // optional
    Field::new(2751, 11, 5, Shape::Pointer, Omit::Empty, Type::Int64), // defaultUser
    // v1.VsphereVirtualDiskVolumeSource
    Field::new(3247, 10, 1, Shape::Value, Omit::Never, Type::String), // volumePath
    Field::new(4107, 6, 2, Shape::Value, Omit::Empty, Type::String), // fsType
    Field::new(1405, 17, 3, Shape::Value, Omit::Empty, Type::String), // storagePolicyName
    Field::new(1984, 15, 4, Shape::Value, Omit::Empty, Type::String), // storagePolicyID
    // v1.QuobyteVolumeSource
    Field::new(3800, 8, 1, Shape::Value, Omit::Never, Type::String), // registry
    Field::new(315, 6, 2, Shape::Value, Omit::Never, Type::String), // volume
    Field::new(527, 8, 3, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    Field::new(1999, 4, 4, Shape::Value, Omit::Empty, Type::String), // user
    Field::new(4220, 5, 5, Shape::Value, Omit::Empty, Type::String), // group
    Field::new(4197, 6, 6, Shape::Value, Omit::Empty, Type::String), // tenant
    // v1.AzureDiskVolumeSource
    Field::new(3648, 8, 1, Shape::Value, Omit::Never, Type::String), // diskName
    Field::new(3870, 7, 2, Shape::Value, Omit::Never, Type::String), // diskURI
    Field::new(2696, 11, 3, Shape::Pointer, Omit::Empty, Type::String), // cachingMode
    Field::new(4107, 6, 4, Shape::Pointer, Omit::Empty, Type::String), // fsType
    Field::new(527, 8, 5, Shape::Pointer, Omit::Empty, Type::Bool), // readOnly
    Field::new(4290, 4, 6, Shape::Pointer, Omit::Empty, Type::String), // kind
    // v1.PhotonPersistentDiskVolumeSource
    Field::new(4302, 4, 1, Shape::Value, Omit::Never, Type::String), // pdID
    Field::new(4107, 6, 2, Shape::Value, Omit::Empty, Type::String), // fsType
    // v1.ProjectedVolumeSource
    Field::new(351, 7, 1, Shape::List, Omit::Never, Type::Message(42)), // sources
    Field::new(2740, 11, 2, Shape::Pointer, Omit::Empty, Type::Int32), // defaultMode
    Field::new(2751, 11, 3, Shape::Pointer, Omit::Empty, Type::Int64), // defaultUser
    // v1.VolumeProjection
    Field::new(2579, 6, 1, Shape::Pointer, Omit::Empty, Type::Message(43)), // secret
    Field::new(2762, 11, 2, Shape::Pointer, Omit::Empty, Type::Message(44)), // downwardAPI
    Field::new(1774, 9, 3, Shape::Pointer, Omit::Empty, Type::Message(45)), // configMap
    Field::new(913, 19, 4, Shape::Pointer, Omit::Empty, Type::Message(46)), // serviceAccountToken
    Field::new(988, 18, 5, Shape::Pointer, Omit::Empty, Type::Message(47)), // clusterTrustBundle
    Field::new(2086, 14, 6, Shape::Pointer, Omit::Empty, Type::Message(50)), // podCertificate
    // v1.SecretProjection
    Field::new(0, 0, 1, Shape::Value, Omit::Never, Type::Message(22)), // (inlined)
    Field::new(4225, 5, 2, Shape::List, Omit::Empty, Type::Message(19)), // items
    Field::new(3752, 8, 4, Shape::Pointer, Omit::Empty, Type::Bool), // optional
    // v1.DownwardAPIProjection
    Field::new(4225, 5, 1, Shape::List, Omit::Empty, Type::Message(31)), // items
    // v1.ConfigMapProjection
    Field::new(0, 0, 1, Shape::Value, Omit::Never, Type::Message(22)), // (inlined)
    Field::new(4225, 5, 2, Shape::List, Omit::Empty, Type::Message(19)), // items
    Field::new(3752, 8, 4, Shape::Pointer, Omit::Empty, Type::Bool), // optional
    // v1.ServiceAccountTokenProjection
    Field::new(3624, 8, 1, Shape::Value, Omit::Empty, Type::String), // audience
    Field::new(1218, 17, 2, Shape::Pointer, Omit::Empty, Type::Int64), // expirationSeconds
    Field::new(4298, 4, 3, Shape::Value, Omit::Never, Type::String), // path
    Field::new(1999, 4, 4, Shape::Pointer, Omit::Empty, Type::Int64), // user
    // v1.ClusterTrustBundleProjection
    Field::new(1286, 4, 1, Shape::Pointer, Omit::Empty, Type::String), // name
    Field::new(3167, 10, 2, Shape::Pointer, Omit::Empty, Type::String), // signerName
    Field::new(2304, 13, 3, Shape::Pointer, Omit::Empty, Type::Message(48)), // labelSelector
    Field::new(3752, 8, 5, Shape::Pointer, Omit::Empty, Type::Bool), // optional
    Field::new(4298, 4, 4, Shape::Value, Omit::Never, Type::String), // path
    Field::new(1999, 4, 6, Shape::Pointer, Omit::Empty, Type::Int64), // user
    // v1.LabelSelector
    Field::new(2828, 11, 1, Shape::Map, Omit::Empty, Type::String), // matchLabels
    Field::new(1600, 16, 2, Shape::List, Omit::Empty, Type::Message(49)), // matchExpressions
    // v1.LabelSelectorRequirement
    Field::new(3947, 3, 1, Shape::Value, Omit::Never, Type::String), // key
    Field::new(3744, 8, 2, Shape::Value, Omit::Never, Type::String), // operator
    Field::new(4203, 6, 3, Shape::List, Omit::Empty, Type::String), // values
    // v1.PodCertificateProjection
    Field::new(3167, 10, 1, Shape::Value, Omit::Empty, Type::String), // signerName
    Field::new(3954, 7, 2, Shape::Value, Omit::Empty, Type::String), // keyType
    Field::new(758, 20, 3, Shape::Pointer, Omit::Empty, Type::Int32), // maxExpirationSeconds
    Field::new(738, 20, 4, Shape::Value, Omit::Empty, Type::String), // credentialBundlePath
    Field::new(3947, 7, 5, Shape::Value, Omit::Empty, Type::String), // keyPath
    Field::new(718, 20, 6, Shape::Value, Omit::Empty, Type::String), // certificateChainPath
    Field::new(1999, 15, 7, Shape::Map, Omit::Empty, Type::String), // userAnnotations
    Field::new(1999, 4, 8, Shape::Pointer, Omit::Empty, Type::Int64), // user
    // v1.PortworxVolumeSource
    Field::new(3848, 8, 1, Shape::Value, Omit::Never, Type::String), // volumeID
    Field::new(4107, 6, 2, Shape::Value, Omit::Empty, Type::String), // fsType
    Field::new(527, 8, 3, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    // v1.ScaleIOVolumeSource
    Field::new(3898, 7, 1, Shape::Value, Omit::Never, Type::String), // gateway
    Field::new(543, 6, 2, Shape::Value, Omit::Never, Type::String), // system
    Field::new(3483, 9, 3, Shape::Pointer, Omit::Never, Type::Message(22)), // secretRef
    Field::new(3177, 10, 4, Shape::Value, Omit::Empty, Type::Bool), // sslEnabled
    Field::new(1664, 16, 5, Shape::Value, Omit::Empty, Type::String), // protectionDomain
    Field::new(2872, 11, 6, Shape::Value, Omit::Empty, Type::String), // storagePool
    Field::new(2861, 11, 7, Shape::Value, Omit::Empty, Type::String), // storageMode
    Field::new(2014, 10, 8, Shape::Value, Omit::Empty, Type::String), // volumeName
    Field::new(4107, 6, 9, Shape::Value, Omit::Empty, Type::String), // fsType
    Field::new(527, 8, 10, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    // v1.StorageOSVolumeSource
    Field::new(2014, 10, 1, Shape::Value, Omit::Empty, Type::String), // volumeName
    Field::new(2014, 15, 2, Shape::Value, Omit::Empty, Type::String), // volumeNamespace
    Field::new(4107, 6, 3, Shape::Value, Omit::Empty, Type::String), // fsType
    Field::new(527, 8, 4, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    Field::new(3483, 9, 5, Shape::Pointer, Omit::Empty, Type::Message(22)), // secretRef
    // v1.CSIVolumeSource
    Field::new(4095, 6, 1, Shape::Value, Omit::Never, Type::String), // driver
    Field::new(527, 8, 2, Shape::Pointer, Omit::Empty, Type::Bool), // readOnly
    Field::new(4107, 6, 3, Shape::Pointer, Omit::Empty, Type::String), // fsType
    Field::new(315, 16, 4, Shape::Map, Omit::Empty, Type::String), // volumeAttributes
    Field::new(778, 20, 5, Shape::Pointer, Omit::Empty, Type::Message(22)), // nodePublishSecretRef
    // v1.EphemeralVolumeSource
    Field::new(951, 19, 1, Shape::Pointer, Omit::Empty, Type::Message(56)), // volumeClaimTemplate
    // v1.PersistentVolumeClaimTemplate
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(1)), // metadata
    Field::new(4314, 4, 2, Shape::Value, Omit::Never, Type::Message(57)), // spec
    // v1.PersistentVolumeClaimSpec
    Field::new(2663, 11, 1, Shape::List, Omit::Empty, Type::String), // accessModes
    Field::new(3832, 8, 4, Shape::Pointer, Omit::Empty, Type::Message(48)), // selector
    Field::new(3474, 9, 2, Shape::Value, Omit::Empty, Type::Message(58)), // resources
    Field::new(2014, 10, 3, Shape::Value, Omit::Empty, Type::String), // volumeName
    Field::new(1712, 16, 5, Shape::Pointer, Omit::Empty, Type::String), // storageClassName
    Field::new(3237, 10, 6, Shape::Pointer, Omit::Empty, Type::String), // volumeMode
    Field::new(2265, 10, 7, Shape::Pointer, Omit::Empty, Type::Message(59)), // dataSource
    Field::new(2265, 13, 8, Shape::Pointer, Omit::Empty, Type::Message(60)), // dataSourceRef
    Field::new(315, 25, 9, Shape::Pointer, Omit::Empty, Type::String), // volumeAttributesClassName
    // v1.VolumeResourceRequirements
    Field::new(4125, 6, 1, Shape::Map, Omit::Empty, Type::Quantity), // limits
    Field::new(3808, 8, 2, Shape::Map, Omit::Empty, Type::Quantity), // requests
    // v1.TypedLocalObjectReference
    Field::new(3608, 8, 1, Shape::Pointer, Omit::Never, Type::String), // apiGroup
    Field::new(4290, 4, 2, Shape::Value, Omit::Never, Type::String), // kind
    Field::new(1286, 4, 3, Shape::Value, Omit::Never, Type::String), // name
    // v1.TypedObjectReference
    Field::new(3608, 8, 1, Shape::Pointer, Omit::Never, Type::String), // apiGroup
    Field::new(4290, 4, 2, Shape::Value, Omit::Never, Type::String), // kind
    Field::new(1286, 4, 3, Shape::Value, Omit::Never, Type::String), // name
    Field::new(1286, 9, 4, Shape::Pointer, Omit::Empty, Type::String), // namespace
    // v1.ImageVolumeSource
    Field::new(3078, 9, 1, Shape::Value, Omit::Empty, Type::String), // reference
    Field::new(3107, 10, 2, Shape::Value, Omit::Empty, Type::String), // pullPolicy
    // v1.Container
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(1536, 5, 2, Shape::Value, Omit::Empty, Type::String), // image
    Field::new(3856, 7, 3, Shape::List, Omit::Empty, Type::String), // command
    Field::new(4270, 4, 4, Shape::List, Omit::Empty, Type::String), // args
    Field::new(3257, 10, 5, Shape::Value, Omit::Empty, Type::String), // workingDir
    Field::new(4245, 5, 6, Shape::List, Omit::Empty, Type::Message(63)), // ports
    Field::new(3884, 7, 19, Shape::List, Omit::Empty, Type::Message(64)), // envFrom
    Field::new(3884, 3, 7, Shape::List, Omit::Empty, Type::Message(67)), // env
    Field::new(3474, 9, 8, Shape::Value, Omit::Empty, Type::Message(72)), // resources
    Field::new(2531, 12, 23, Shape::List, Omit::Empty, Type::Message(74)), // resizePolicy
    Field::new(1114, 13, 24, Shape::Pointer, Omit::Empty, Type::String), // restartPolicy
    Field::new(1114, 18, 25, Shape::List, Omit::Empty, Type::Message(75)), // restartPolicyRules
    Field::new(2627, 12, 9, Shape::List, Omit::Empty, Type::Message(77)), // volumeMounts
    Field::new(2421, 13, 21, Shape::List, Omit::Empty, Type::Message(78)), // volumeDevices
    Field::new(2343, 13, 10, Shape::Pointer, Omit::Empty, Type::Message(79)), // livenessProbe
    Field::new(2128, 14, 11, Shape::Pointer, Omit::Empty, Type::Message(79)), // readinessProbe
    Field::new(2591, 12, 22, Shape::Pointer, Omit::Empty, Type::Message(79)), // startupProbe
    Field::new(3402, 9, 12, Shape::Pointer, Omit::Empty, Type::Message(86)), // lifecycle
    Field::new(571, 22, 13, Shape::Value, Omit::Empty, Type::String), // terminationMessagePath
    Field::new(412, 24, 20, Shape::Value, Omit::Empty, Type::String), // terminationMessagePolicy
    Field::new(1804, 15, 14, Shape::Value, Omit::Empty, Type::String), // imagePullPolicy
    Field::new(1969, 15, 15, Shape::Pointer, Omit::Empty, Type::Message(89)), // securityContext
    Field::new(3546, 5, 16, Shape::Value, Omit::Empty, Type::Bool), // stdin
    Field::new(3546, 9, 17, Shape::Value, Omit::Empty, Type::Bool), // stdinOnce
    Field::new(4341, 3, 18, Shape::Value, Omit::Empty, Type::Bool), // tty
    // v1.ContainerPort
    Field::new(1286, 4, 1, Shape::Value, Omit::Empty, Type::String), // name
    Field::new(3696, 8, 2, Shape::Value, Omit::Empty, Type::Int32), // hostPort
    Field::new(2252, 13, 3, Shape::Value, Omit::Never, Type::Int32), // containerPort
    Field::new(3776, 8, 4, Shape::Value, Omit::Empty, Type::String), // protocol
    Field::new(3912, 6, 5, Shape::Value, Omit::Empty, Type::String), // hostIP
    // v1.EnvFromSource
    Field::new(4161, 6, 1, Shape::Value, Omit::Empty, Type::String), // prefix
    Field::new(2471, 12, 2, Shape::Pointer, Omit::Empty, Type::Message(65)), // configMapRef
    Field::new(3483, 9, 3, Shape::Pointer, Omit::Empty, Type::Message(66)), // secretRef
    // v1.ConfigMapEnvSource
    Field::new(0, 0, 1, Shape::Value, Omit::Never, Type::Message(22)), // (inlined)
    Field::new(3752, 8, 2, Shape::Pointer, Omit::Empty, Type::Bool), // optional
    // v1.SecretEnvSource
    Field::new(0, 0, 1, Shape::Value, Omit::Never, Type::Message(22)), // (inlined)
    Field::new(3752, 8, 2, Shape::Pointer, Omit::Empty, Type::Bool), // optional
    // v1.EnvVar
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(3591, 5, 2, Shape::Value, Omit::Empty, Type::String), // value
    Field::new(3591, 9, 3, Shape::Pointer, Omit::Empty, Type::Message(68)), // valueFrom
    // v1.EnvVarSource
    Field::new(3672, 8, 1, Shape::Pointer, Omit::Empty, Type::Message(32)), // fieldRef
    Field::new(1680, 16, 2, Shape::Pointer, Omit::Empty, Type::Message(33)), // resourceFieldRef
    Field::new(1774, 15, 3, Shape::Pointer, Omit::Empty, Type::Message(69)), // configMapKeyRef
    Field::new(2579, 12, 4, Shape::Pointer, Omit::Empty, Type::Message(70)), // secretKeyRef
    Field::new(3007, 10, 5, Shape::Pointer, Omit::Empty, Type::Message(71)), // fileKeyRef
    // v1.ConfigMapKeySelector
    Field::new(0, 0, 1, Shape::Value, Omit::Never, Type::Message(22)), // (inlined)
    Field::new(3947, 3, 2, Shape::Value, Omit::Never, Type::String), // key
    Field::new(3752, 8, 3, Shape::Pointer, Omit::Empty, Type::Bool), // optional
    // v1.SecretKeySelector
    Field::new(0, 0, 1, Shape::Value, Omit::Never, Type::Message(22)), // (inlined)
    Field::new(3947, 3, 2, Shape::Value, Omit::Never, Type::String), // key
    Field::new(3752, 8, 3, Shape::Pointer, Omit::Empty, Type::Bool), // optional
    // v1.FileKeySelector
    Field::new(2014, 10, 1, Shape::Value, Omit::Never, Type::String), // volumeName
    Field::new(4298, 4, 2, Shape::Value, Omit::Never, Type::String), // path
    Field::new(3947, 3, 3, Shape::Value, Omit::Never, Type::String), // key
    Field::new(3752, 8, 4, Shape::Pointer, Omit::Empty, Type::Bool), // optional
    // v1.ResourceRequirements
    Field::new(4125, 6, 1, Shape::Map, Omit::Empty, Type::Quantity), // limits
    Field::new(3808, 8, 2, Shape::Map, Omit::Empty, Type::Quantity), // requests
    Field::new(4089, 6, 3, Shape::List, Omit::Empty, Type::Message(73)), // claims
    // v1.ResourceClaim
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(1894, 7, 2, Shape::Value, Omit::Empty, Type::String), // request
    // v1.ContainerResizePolicy
    Field::new(2543, 12, 1, Shape::Value, Omit::Never, Type::String), // resourceName
    Field::new(1114, 13, 2, Shape::Value, Omit::Never, Type::String), // restartPolicy
    // v1.ContainerRestartRule
    Field::new(4059, 6, 1, Shape::Value, Omit::Empty, Type::String), // action
    Field::new(3339, 9, 2, Shape::Pointer, Omit::Empty, Type::Message(76)), // exitCodes
    // v1.ContainerRestartRuleOnExitCodes
    Field::new(3744, 8, 1, Shape::Value, Omit::Empty, Type::String), // operator
    Field::new(4203, 6, 2, Shape::List, Omit::Empty, Type::Int32), // values
    // v1.VolumeMount
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(527, 8, 2, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    Field::new(482, 17, 7, Shape::Pointer, Omit::Empty, Type::String), // recursiveReadOnly
    Field::new(3420, 9, 3, Shape::Value, Omit::Never, Type::String), // mountPath
    Field::new(2883, 7, 4, Shape::Value, Omit::Empty, Type::String), // subPath
    Field::new(1616, 16, 5, Shape::Pointer, Omit::Empty, Type::String), // mountPropagation
    Field::new(2883, 11, 6, Shape::Value, Omit::Empty, Type::String), // subPathExpr
    Field::new(1456, 16, 8, Shape::List, Omit::Empty, Type::String), // bindMountOptions
    // v1.VolumeDevice
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(2977, 10, 2, Shape::Value, Omit::Never, Type::String), // devicePath
    // v1.Probe
    Field::new(0, 0, 1, Shape::Value, Omit::Never, Type::Message(80)), // (inlined)
    Field::new(856, 19, 2, Shape::Value, Omit::Empty, Type::Int32), // initialDelaySeconds
    Field::new(2184, 14, 3, Shape::Value, Omit::Empty, Type::Int32), // timeoutSeconds
    Field::new(2369, 13, 4, Shape::Value, Omit::Empty, Type::Int32), // periodSeconds
    Field::new(1728, 16, 5, Shape::Value, Omit::Empty, Type::Int32), // successThreshold
    Field::new(1488, 16, 6, Shape::Value, Omit::Empty, Type::Int32), // failureThreshold
    Field::new(129, 29, 7, Shape::Pointer, Omit::Empty, Type::Int64), // terminationGracePeriodSeconds
    // v1.ProbeHandler
    Field::new(4282, 4, 1, Shape::Pointer, Omit::Empty, Type::Message(81)), // exec
    Field::new(3933, 7, 2, Shape::Pointer, Omit::Empty, Type::Message(82)), // httpGet
    Field::new(3573, 9, 3, Shape::Pointer, Omit::Empty, Type::Message(84)), // tcpSocket
    Field::new(4286, 4, 4, Shape::Pointer, Omit::Empty, Type::Message(85)), // grpc
    // v1.ExecAction
    Field::new(3856, 7, 1, Shape::List, Omit::Empty, Type::String), // command
    // v1.HTTPGetAction
    Field::new(4298, 4, 1, Shape::Value, Omit::Empty, Type::String), // path
    Field::new(2100, 4, 2, Shape::Value, Omit::Never, Type::IntOrString), // port
    Field::new(1520, 4, 3, Shape::Value, Omit::Empty, Type::String), // host
    Field::new(4173, 6, 4, Shape::Value, Omit::Empty, Type::String), // scheme
    Field::new(2806, 11, 5, Shape::List, Omit::Empty, Type::Message(83)), // httpHeaders
    Field::new(3776, 8, 6, Shape::Pointer, Omit::Empty, Type::String), // protocol
    // v1.HTTPHeader
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(3591, 5, 2, Shape::Value, Omit::Never, Type::String), // value
    // v1.TCPSocketAction
    Field::new(2100, 4, 1, Shape::Value, Omit::Never, Type::IntOrString), // port
    Field::new(1520, 4, 2, Shape::Value, Omit::Empty, Type::String), // host
    // v1.GRPCAction
    Field::new(2100, 4, 1, Shape::Value, Omit::Never, Type::Int32), // port
    Field::new(913, 7, 2, Shape::Pointer, Omit::Never, Type::String), // service
    Field::new(4294, 4, 3, Shape::Pointer, Omit::Empty, Type::String), // mode
    // v1.Lifecycle
    Field::new(3447, 9, 1, Shape::Pointer, Omit::Empty, Type::Message(87)), // postStart
    Field::new(4017, 7, 2, Shape::Pointer, Omit::Empty, Type::Message(87)), // preStop
    Field::new(3187, 10, 3, Shape::Pointer, Omit::Empty, Type::String), // stopSignal
    // v1.LifecycleHandler
    Field::new(4282, 4, 1, Shape::Pointer, Omit::Empty, Type::Message(81)), // exec
    Field::new(3933, 7, 2, Shape::Pointer, Omit::Empty, Type::Message(82)), // httpGet
    Field::new(3573, 9, 3, Shape::Pointer, Omit::Empty, Type::Message(84)), // tcpSocket
    Field::new(4255, 5, 4, Shape::Pointer, Omit::Empty, Type::Message(88)), // sleep
    // v1.SleepAction
    Field::new(4038, 7, 1, Shape::Value, Omit::Never, Type::Int64), // seconds
    // v1.SecurityContext
    Field::new(2459, 12, 1, Shape::Pointer, Omit::Empty, Type::Message(90)), // capabilities
    Field::new(3087, 10, 2, Shape::Pointer, Omit::Empty, Type::Bool), // privileged
    Field::new(2156, 14, 3, Shape::Pointer, Omit::Empty, Type::Message(91)), // seLinuxOptions
    Field::new(2212, 14, 10, Shape::Pointer, Omit::Empty, Type::Message(92)), // windowsOptions
    Field::new(2382, 9, 4, Shape::Pointer, Omit::Empty, Type::Int64), // runAsUser
    Field::new(3137, 10, 8, Shape::Pointer, Omit::Empty, Type::Int64), // runAsGroup
    Field::new(2567, 12, 5, Shape::Pointer, Omit::Empty, Type::Bool), // runAsNonRoot
    Field::new(527, 22, 6, Shape::Pointer, Omit::Empty, Type::Bool), // readOnlyRootFilesystem
    Field::new(364, 24, 7, Shape::Pointer, Omit::Empty, Type::Bool), // allowPrivilegeEscalation
    Field::new(3456, 9, 9, Shape::Pointer, Omit::Empty, Type::String), // procMount
    Field::new(2170, 14, 11, Shape::Pointer, Omit::Empty, Type::Message(93)), // seccompProfile
    Field::new(1744, 15, 12, Shape::Pointer, Omit::Empty, Type::Message(94)), // appArmorProfile
    // v1.Capabilities
    Field::new(3267, 3, 1, Shape::List, Omit::Empty, Type::String), // add
    Field::new(4278, 4, 2, Shape::List, Omit::Empty, Type::String), // drop
    // v1.SELinuxOptions
    Field::new(1999, 4, 1, Shape::Value, Omit::Empty, Type::String), // user
    Field::new(4310, 4, 2, Shape::Value, Omit::Empty, Type::String), // role
    Field::new(4322, 4, 3, Shape::Value, Omit::Empty, Type::String), // type
    Field::new(4230, 5, 4, Shape::Value, Omit::Empty, Type::String), // level
    // v1.WindowsSecurityContextOptions
    Field::new(505, 22, 1, Shape::Pointer, Omit::Empty, Type::String), // gmsaCredentialSpecName
    Field::new(505, 18, 2, Shape::Pointer, Omit::Empty, Type::String), // gmsaCredentialSpec
    Field::new(2382, 13, 3, Shape::Pointer, Omit::Empty, Type::String), // runAsUserName
    Field::new(2795, 11, 4, Shape::Pointer, Omit::Empty, Type::Bool), // hostProcess
    // v1.SeccompProfile
    Field::new(4322, 4, 1, Shape::Value, Omit::Never, Type::String), // type
    Field::new(1584, 16, 2, Shape::Pointer, Omit::Empty, Type::String), // localhostProfile
    // v1.AppArmorProfile
    Field::new(4322, 4, 1, Shape::Value, Omit::Never, Type::String), // type
    Field::new(1584, 16, 2, Shape::Pointer, Omit::Empty, Type::String), // localhostProfile
    // v1.EphemeralContainer
    Field::new(0, 0, 1, Shape::Value, Omit::Never, Type::Message(96)), // (inlined)
    Field::new(932, 19, 2, Shape::Value, Omit::Empty, Type::String), // targetContainerName
    // v1.EphemeralContainerCommon
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(1536, 5, 2, Shape::Value, Omit::Empty, Type::String), // image
    Field::new(3856, 7, 3, Shape::List, Omit::Empty, Type::String), // command
    Field::new(4270, 4, 4, Shape::List, Omit::Empty, Type::String), // args
    Field::new(3257, 10, 5, Shape::Value, Omit::Empty, Type::String), // workingDir
    Field::new(4245, 5, 6, Shape::List, Omit::Empty, Type::Message(63)), // ports
    Field::new(3884, 7, 19, Shape::List, Omit::Empty, Type::Message(64)), // envFrom
    Field::new(3884, 3, 7, Shape::List, Omit::Empty, Type::Message(67)), // env
    Field::new(3474, 9, 8, Shape::Value, Omit::Empty, Type::Message(72)), // resources
    Field::new(2531, 12, 23, Shape::List, Omit::Empty, Type::Message(74)), // resizePolicy
    Field::new(1114, 13, 24, Shape::Pointer, Omit::Empty, Type::String), // restartPolicy
    Field::new(1114, 18, 25, Shape::List, Omit::Empty, Type::Message(75)), // restartPolicyRules
    Field::new(2627, 12, 9, Shape::List, Omit::Empty, Type::Message(77)), // volumeMounts
    Field::new(2421, 13, 21, Shape::List, Omit::Empty, Type::Message(78)), // volumeDevices
    Field::new(2343, 13, 10, Shape::Pointer, Omit::Empty, Type::Message(79)), // livenessProbe
    Field::new(2128, 14, 11, Shape::Pointer, Omit::Empty, Type::Message(79)), // readinessProbe
    Field::new(2591, 12, 22, Shape::Pointer, Omit::Empty, Type::Message(79)), // startupProbe
    Field::new(3402, 9, 12, Shape::Pointer, Omit::Empty, Type::Message(86)), // lifecycle
    Field::new(571, 22, 13, Shape::Value, Omit::Empty, Type::String), // terminationMessagePath
    Field::new(412, 24, 20, Shape::Value, Omit::Empty, Type::String), // terminationMessagePolicy
    Field::new(1804, 15, 14, Shape::Value, Omit::Empty, Type::String), // imagePullPolicy
    Field::new(1969, 15, 15, Shape::Pointer, Omit::Empty, Type::Message(89)), // securityContext
    Field::new(3546, 5, 16, Shape::Value, Omit::Empty, Type::Bool), // stdin
    Field::new(3546, 9, 17, Shape::Value, Omit::Empty, Type::Bool), // stdinOnce
    Field::new(4341, 3, 18, Shape::Value, Omit::Empty, Type::Bool), // tty
    // v1.PodSecurityContext
    Field::new(2156, 14, 1, Shape::Pointer, Omit::Empty, Type::Message(91)), // seLinuxOptions
    Field::new(2212, 14, 8, Shape::Pointer, Omit::Empty, Type::Message(92)), // windowsOptions
    Field::new(2382, 9, 2, Shape::Pointer, Omit::Empty, Type::Int64), // runAsUser
    Field::new(3137, 10, 6, Shape::Pointer, Omit::Empty, Type::Int64), // runAsGroup
    Field::new(2567, 12, 3, Shape::Pointer, Omit::Empty, Type::Bool), // runAsNonRoot
    Field::new(388, 18, 4, Shape::List, Omit::Empty, Type::Int64), // supplementalGroups
    Field::new(388, 24, 12, Shape::Pointer, Omit::Empty, Type::String), // supplementalGroupsPolicy
    Field::new(837, 7, 5, Shape::Pointer, Omit::Empty, Type::Int64), // fsGroup
    Field::new(4045, 7, 7, Shape::List, Omit::Empty, Type::Message(98)), // sysctls
    Field::new(837, 19, 9, Shape::Pointer, Omit::Empty, Type::String), // fsGroupChangePolicy
    Field::new(2170, 14, 10, Shape::Pointer, Omit::Empty, Type::Message(93)), // seccompProfile
    Field::new(1744, 15, 11, Shape::Pointer, Omit::Empty, Type::Message(94)), // appArmorProfile
    Field::new(894, 19, 13, Shape::Pointer, Omit::Empty, Type::String), // seLinuxChangePolicy
    // v1.Sysctl
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(3591, 5, 2, Shape::Value, Omit::Never, Type::String), // value
    // v1.Affinity
    Field::new(1060, 12, 1, Shape::Pointer, Omit::Empty, Type::Message(100)), // nodeAffinity
    Field::new(1864, 11, 2, Shape::Pointer, Omit::Empty, Type::Message(105)), // podAffinity
    Field::new(1879, 15, 3, Shape::Pointer, Omit::Empty, Type::Message(108)), // podAntiAffinity
    // v1.NodeAffinity
    Field::new(47, 46, 1, Shape::Pointer, Omit::Empty, Type::Message(101)), // requiredDuringSchedulingIgnoredDuringExecution
    Field::new(0, 47, 2, Shape::List, Omit::Empty, Type::Message(104)), // preferredDuringSchedulingIgnoredDuringExecution
    // v1.NodeSelector
    Field::new(1303, 17, 1, Shape::List, Omit::Never, Type::Message(102)), // nodeSelectorTerms
    // v1.NodeSelectorTerm
    Field::new(1600, 16, 1, Shape::List, Omit::Empty, Type::Message(103)), // matchExpressions
    Field::new(2817, 11, 2, Shape::List, Omit::Empty, Type::Message(103)), // matchFields
    // v1.NodeSelectorRequirement
    Field::new(3947, 3, 1, Shape::Value, Omit::Never, Type::String), // key
    Field::new(3744, 8, 2, Shape::Value, Omit::Never, Type::String), // operator
    Field::new(4203, 6, 3, Shape::List, Omit::Empty, Type::String), // values
    // v1.PreferredSchedulingTerm
    Field::new(4209, 6, 1, Shape::Value, Omit::Never, Type::Int32), // weight
    Field::new(3077, 10, 2, Shape::Value, Omit::Never, Type::Message(102)), // preference
    // v1.PodAffinity
    Field::new(47, 46, 1, Shape::List, Omit::Empty, Type::Message(106)), // requiredDuringSchedulingIgnoredDuringExecution
    Field::new(0, 47, 2, Shape::List, Omit::Empty, Type::Message(107)), // preferredDuringSchedulingIgnoredDuringExecution
    // v1.PodAffinityTerm
    Field::new(2304, 13, 1, Shape::Pointer, Omit::Empty, Type::Message(48)), // labelSelector
    Field::new(3067, 10, 2, Shape::List, Omit::Empty, Type::String), // namespaces
    Field::new(2916, 11, 3, Shape::Value, Omit::Never, Type::String), // topologyKey
    Field::new(1286, 17, 4, Shape::Pointer, Omit::Empty, Type::Message(48)), // namespaceSelector
    Field::new(1272, 14, 5, Shape::List, Omit::Empty, Type::String), // matchLabelKeys
    Field::new(1269, 17, 6, Shape::List, Omit::Empty, Type::String), // mismatchLabelKeys
    // v1.WeightedPodAffinityTerm
    Field::new(4209, 6, 1, Shape::Value, Omit::Never, Type::Int32), // weight
    Field::new(1864, 15, 2, Shape::Value, Omit::Never, Type::Message(106)), // podAffinityTerm
    // v1.PodAntiAffinity
    Field::new(47, 46, 1, Shape::List, Omit::Empty, Type::Message(106)), // requiredDuringSchedulingIgnoredDuringExecution
    Field::new(0, 47, 2, Shape::List, Omit::Empty, Type::Message(107)), // preferredDuringSchedulingIgnoredDuringExecution
    // v1.Toleration
    Field::new(3947, 3, 1, Shape::Value, Omit::Empty, Type::String), // key
    Field::new(3744, 8, 2, Shape::Value, Omit::Empty, Type::String), // operator
    Field::new(3591, 5, 3, Shape::Value, Omit::Empty, Type::String), // value
    Field::new(4101, 6, 4, Shape::Value, Omit::Empty, Type::String), // effect
    Field::new(1422, 17, 5, Shape::Pointer, Omit::Empty, Type::Int64), // tolerationSeconds
    // v1.HostAlias
    Field::new(4347, 2, 1, Shape::Value, Omit::Never, Type::String), // ip
    Field::new(3375, 9, 2, Shape::List, Omit::Empty, Type::String), // hostnames
    // v1.PodDNSConfig
    Field::new(2839, 11, 1, Shape::List, Omit::Empty, Type::String), // nameservers
    Field::new(3824, 8, 2, Shape::List, Omit::Empty, Type::String), // searches
    Field::new(3996, 7, 3, Shape::List, Omit::Empty, Type::Message(112)), // options
    // v1.PodDNSConfigOption
    Field::new(1286, 4, 1, Shape::Value, Omit::Empty, Type::String), // name
    Field::new(3591, 5, 2, Shape::Pointer, Omit::Empty, Type::String), // value
    // v1.PodReadinessGate
    Field::new(2226, 13, 1, Shape::Value, Omit::Never, Type::String), // conditionType
    // v1.TopologySpreadConstraint
    Field::new(3982, 7, 1, Shape::Value, Omit::Never, Type::Int32), // maxSkew
    Field::new(2916, 11, 2, Shape::Value, Omit::Never, Type::String), // topologyKey
    Field::new(1439, 17, 3, Shape::Value, Omit::Never, Type::String), // whenUnsatisfiable
    Field::new(2304, 13, 4, Shape::Pointer, Omit::Empty, Type::Message(48)), // labelSelector
    Field::new(3057, 10, 5, Shape::Pointer, Omit::Empty, Type::Int32), // minDomains
    Field::new(1060, 18, 6, Shape::Pointer, Omit::Empty, Type::String), // nodeAffinityPolicy
    Field::new(1632, 16, 7, Shape::Pointer, Omit::Empty, Type::String), // nodeTaintsPolicy
    Field::new(1272, 14, 8, Shape::List, Omit::Empty, Type::String), // matchLabelKeys
    // v1.PodOS
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    // v1.PodSchedulingGate
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    // v1.PodResourceClaim
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(1354, 17, 3, Shape::Pointer, Omit::Empty, Type::String), // resourceClaimName
    Field::new(265, 25, 4, Shape::Pointer, Omit::Empty, Type::String), // resourceClaimTemplateName
    // v1.PodSchedulingGroup
    Field::new(2519, 12, 1, Shape::Pointer, Omit::Empty, Type::String), // podGroupName
    // v1.EvictionResponder
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(1337, 8, 2, Shape::Pointer, Omit::Never, Type::Int32), // priority
    // v1.PodStatus
    Field::new(1078, 18, 17, Shape::Value, Omit::Empty, Type::Int64), // observedGeneration
    Field::new(4240, 5, 1, Shape::Value, Omit::Empty, Type::String), // phase
    Field::new(2947, 10, 2, Shape::List, Omit::Empty, Type::Message(121)), // conditions
    Field::new(3989, 7, 3, Shape::Value, Omit::Empty, Type::String), // message
    Field::new(4167, 6, 4, Shape::Value, Omit::Empty, Type::String), // reason
    Field::new(1320, 17, 11, Shape::Value, Omit::Empty, Type::String), // nominatedNodeName
    Field::new(3912, 6, 5, Shape::Value, Omit::Empty, Type::String), // hostIP
    Field::new(3919, 7, 16, Shape::List, Omit::Empty, Type::Message(122)), // hostIPs
    Field::new(4155, 5, 6, Shape::Value, Omit::Empty, Type::String), // podIP
    Field::new(4155, 6, 12, Shape::List, Omit::Empty, Type::Message(123)), // podIPs
    Field::new(3528, 9, 7, Shape::Pointer, Omit::Empty, Type::Time), // startTime
    Field::new(614, 21, 10, Shape::List, Omit::Empty, Type::Message(124)), // initContainerStatuses
    Field::new(1167, 17, 8, Shape::List, Omit::Empty, Type::Message(124)), // containerStatuses
    Field::new(3784, 8, 9, Shape::Value, Omit::Empty, Type::String), // qosClass
    Field::new(239, 26, 13, Shape::List, Omit::Empty, Type::Message(124)), // ephemeralContainerStatuses
    Field::new(2531, 6, 14, Shape::Value, Omit::Empty, Type::String), // resize
    Field::new(656, 21, 15, Shape::List, Omit::Empty, Type::Message(136)), // resourceClaimStatuses
    Field::new(186, 27, 18, Shape::Pointer, Omit::Empty, Type::Message(137)), // extendedResourceClaimStatus
    Field::new(340, 18, 19, Shape::Map, Omit::Empty, Type::Quantity), // allocatedResources
    Field::new(3474, 9, 20, Shape::Pointer, Omit::Empty, Type::Message(72)), // resources
    Field::new(93, 36, 21, Shape::List, Omit::Empty, Type::Message(139)), // nodeAllocatableResourceClaimStatuses
    Field::new(2615, 12, 22, Shape::List, Omit::Empty, Type::Message(142)), // volumeHealth
    // v1.PodCondition
    Field::new(4322, 4, 1, Shape::Value, Omit::Never, Type::String), // type
    Field::new(1078, 18, 7, Shape::Value, Omit::Empty, Type::Int64), // observedGeneration
    Field::new(4185, 6, 2, Shape::Value, Omit::Never, Type::String), // status
    Field::new(2330, 13, 3, Shape::Value, Omit::Empty, Type::Time), // lastProbeTime
    Field::new(1042, 18, 4, Shape::Value, Omit::Empty, Type::Time), // lastTransitionTime
    Field::new(4167, 6, 5, Shape::Value, Omit::Empty, Type::String), // reason
    Field::new(3989, 7, 6, Shape::Value, Omit::Empty, Type::String), // message
    // v1.HostIP
    Field::new(4347, 2, 1, Shape::Value, Omit::Never, Type::String), // ip
    // v1.PodIP
    Field::new(4347, 2, 1, Shape::Value, Omit::Never, Type::String), // ip
    // v1.ContainerStatus
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(4260, 5, 2, Shape::Value, Omit::Empty, Type::Message(125)), // state
    Field::new(3393, 9, 3, Shape::Value, Omit::Empty, Type::Message(125)), // lastState
    Field::new(4250, 5, 4, Shape::Value, Omit::Never, Type::Bool), // ready
    Field::new(2555, 12, 5, Shape::Value, Omit::Never, Type::Int32), // restartCount
    Field::new(1536, 5, 6, Shape::Value, Omit::Never, Type::String), // image
    Field::new(3940, 7, 7, Shape::Value, Omit::Never, Type::String), // imageID
    Field::new(2707, 11, 8, Shape::Value, Omit::Empty, Type::String), // containerID
    Field::new(3537, 7, 9, Shape::Pointer, Omit::Empty, Type::Bool), // started
    Field::new(340, 18, 10, Shape::Map, Omit::Empty, Type::Quantity), // allocatedResources
    Field::new(3474, 9, 11, Shape::Pointer, Omit::Empty, Type::Message(72)), // resources
    Field::new(2627, 12, 12, Shape::List, Omit::Empty, Type::Message(129)), // volumeMounts
    Field::new(1999, 4, 13, Shape::Pointer, Omit::Empty, Type::Message(132)), // user
    Field::new(340, 24, 14, Shape::List, Omit::Empty, Type::Message(134)), // allocatedResourcesStatus
    Field::new(3187, 10, 15, Shape::Pointer, Omit::Empty, Type::String), // stopSignal
    // v1.ContainerState
    Field::new(4052, 7, 1, Shape::Pointer, Omit::Empty, Type::Message(126)), // waiting
    Field::new(549, 7, 2, Shape::Pointer, Omit::Empty, Type::Message(127)), // running
    Field::new(3227, 10, 3, Shape::Pointer, Omit::Empty, Type::Message(128)), // terminated
    // v1.ContainerStateWaiting
    Field::new(4167, 6, 1, Shape::Value, Omit::Empty, Type::String), // reason
    Field::new(3989, 7, 2, Shape::Value, Omit::Empty, Type::String), // message
    // v1.ContainerStateRunning
    Field::new(3537, 9, 1, Shape::Value, Omit::Empty, Type::Time), // startedAt
    // v1.ContainerStateTerminated
    Field::new(3339, 8, 1, Shape::Value, Omit::Never, Type::Int32), // exitCode
    Field::new(4179, 6, 2, Shape::Value, Omit::Empty, Type::Int32), // signal
    Field::new(4167, 6, 3, Shape::Value, Omit::Empty, Type::String), // reason
    Field::new(3989, 7, 4, Shape::Value, Omit::Empty, Type::String), // message
    Field::new(3537, 9, 5, Shape::Value, Omit::Empty, Type::Time), // startedAt
    Field::new(3027, 10, 6, Shape::Value, Omit::Empty, Type::Time), // finishedAt
    Field::new(2707, 11, 7, Shape::Value, Omit::Empty, Type::String), // containerID
    // v1.VolumeMountStatus
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(3420, 9, 2, Shape::Value, Omit::Never, Type::String), // mountPath
    Field::new(527, 8, 3, Shape::Value, Omit::Empty, Type::Bool), // readOnly
    Field::new(482, 17, 4, Shape::Pointer, Omit::Empty, Type::String), // recursiveReadOnly
    Field::new(2639, 12, 5, Shape::Pointer, Omit::Empty, Type::Message(130)), // volumeStatus
    // v1.VolumeStatus
    Field::new(1536, 5, 1, Shape::Pointer, Omit::Empty, Type::Message(131)), // image
    // v1.ImageVolumeStatus
    Field::new(3704, 8, 1, Shape::Value, Omit::Empty, Type::String), // imageRef
    // v1.ContainerUser
    Field::new(4235, 5, 1, Shape::Pointer, Omit::Empty, Type::Message(133)), // linux
    // v1.LinuxContainerUser
    Field::new(4344, 3, 1, Shape::Value, Omit::Never, Type::Int64), // uid
    Field::new(4326, 3, 2, Shape::Value, Omit::Never, Type::Int64), // gid
    Field::new(388, 18, 3, Shape::List, Omit::Empty, Type::Int64), // supplementalGroups
    // v1.ResourceStatus
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(3474, 9, 2, Shape::List, Omit::Empty, Type::Message(135)), // resources
    // v1.ResourceHealth
    Field::new(3127, 10, 1, Shape::Value, Omit::Never, Type::String), // resourceID
    Field::new(1504, 6, 2, Shape::Value, Omit::Empty, Type::String), // health
    Field::new(3989, 7, 6, Shape::Pointer, Omit::Empty, Type::String), // message
    // v1.PodResourceClaimStatus
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(1354, 17, 2, Shape::Pointer, Omit::Empty, Type::String), // resourceClaimName
    // v1.PodExtendedResourceClaimStatus
    Field::new(1894, 15, 1, Shape::List, Omit::Never, Type::Message(138)), // requestMappings
    Field::new(1354, 17, 2, Shape::Value, Omit::Never, Type::String), // resourceClaimName
    // v1.ContainerExtendedResourceRequest
    Field::new(2239, 13, 1, Shape::Value, Omit::Never, Type::String), // containerName
    Field::new(2543, 12, 2, Shape::Value, Omit::Never, Type::String), // resourceName
    Field::new(2850, 11, 3, Shape::Value, Omit::Never, Type::String), // requestName
    // v1.NodeAllocatableResourceClaimStatus
    Field::new(1354, 17, 1, Shape::Value, Omit::Never, Type::String), // resourceClaimName
    Field::new(2957, 10, 2, Shape::List, Omit::Empty, Type::String), // containers
    Field::new(3975, 7, 4, Shape::List, Omit::Empty, Type::Message(140)), // mapping
    Field::new(3760, 8, 5, Shape::List, Omit::Empty, Type::Message(141)), // overhead
    // v1.NodeAllocatableMappedResources
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(3792, 8, 2, Shape::Pointer, Omit::Never, Type::Quantity), // quantity
    // v1.NodeAllocatableOverheadResources
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(4149, 6, 2, Shape::Pointer, Omit::Empty, Type::Quantity), // perPod
    Field::new(2507, 12, 3, Shape::Pointer, Omit::Empty, Type::Quantity), // perContainer
    // v1.PodVolumeHealth
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(1504, 16, 2, Shape::List, Omit::Empty, Type::Message(143)), // healthConditions
    Field::new(1042, 18, 3, Shape::Value, Omit::Empty, Type::Time), // lastTransitionTime
    // v1.VolumeHealthCondition
    Field::new(4185, 6, 1, Shape::Value, Omit::Never, Type::String), // status
    Field::new(4167, 6, 2, Shape::Value, Omit::Never, Type::String), // reason
    Field::new(3989, 7, 3, Shape::Value, Omit::Empty, Type::String), // message
    // v1.PodList
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(5)), // metadata
    Field::new(4225, 5, 2, Shape::List, Omit::Never, Type::Message(9)), // items
    // v1.Node
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(1)), // metadata
    Field::new(4314, 4, 2, Shape::Value, Omit::Empty, Type::Message(146)), // spec
    Field::new(4185, 6, 3, Shape::Value, Omit::Empty, Type::Message(151)), // status
    // v1.NodeSpec
    Field::new(3768, 7, 1, Shape::Value, Omit::Empty, Type::String), // podCIDR
    Field::new(3768, 8, 7, Shape::List, Omit::Empty, Type::String), // podCIDRs
    Field::new(3097, 10, 3, Shape::Value, Omit::Empty, Type::String), // providerID
    Field::new(2408, 13, 4, Shape::Value, Omit::Empty, Type::Bool), // unschedulable
    Field::new(4191, 6, 5, Shape::List, Omit::Empty, Type::Message(147)), // taints
    Field::new(2483, 12, 6, Shape::Pointer, Omit::Empty, Type::Message(148)), // configSource
    Field::new(2987, 10, 2, Shape::Value, Omit::Empty, Type::String), // externalID
    Field::new(875, 19, 8, Shape::Pointer, Omit::Empty, Type::Message(150)), // podPreemptionPolicy
    // v1.Taint
    Field::new(3947, 3, 1, Shape::Value, Omit::Never, Type::String), // key
    Field::new(3591, 5, 2, Shape::Value, Omit::Empty, Type::String), // value
    Field::new(4101, 6, 3, Shape::Value, Omit::Never, Type::String), // effect
    Field::new(3582, 9, 4, Shape::Pointer, Omit::Empty, Type::Time), // timeAdded
    // v1.NodeConfigSource
    Field::new(1774, 9, 2, Shape::Pointer, Omit::Empty, Type::Message(149)), // configMap
    // v1.ConfigMapNodeConfigSource
    Field::new(1286, 9, 1, Shape::Value, Omit::Never, Type::String), // namespace
    Field::new(1286, 4, 2, Shape::Value, Omit::Never, Type::String), // name
    Field::new(4344, 3, 3, Shape::Value, Omit::Empty, Type::String), // uid
    Field::new(1909, 15, 4, Shape::Value, Omit::Empty, Type::String), // resourceVersion
    Field::new(1568, 16, 5, Shape::Value, Omit::Never, Type::String), // kubeletConfigKey
    // v1.NodePodPreemptionPolicy
    Field::new(459, 23, 1, Shape::List, Omit::Empty, Type::String), // disableResizePreemption
    // v1.NodeStatus
    Field::new(3632, 8, 1, Shape::Map, Omit::Empty, Type::Quantity), // capacity
    Field::new(2674, 11, 2, Shape::Map, Omit::Empty, Type::Quantity), // allocatable
    Field::new(4240, 5, 3, Shape::Value, Omit::Empty, Type::String), // phase
    Field::new(2947, 10, 4, Shape::List, Omit::Empty, Type::Message(152)), // conditions
    Field::new(3267, 9, 5, Shape::List, Omit::Empty, Type::Message(153)), // addresses
    Field::new(1789, 15, 6, Shape::Value, Omit::Empty, Type::Message(154)), // daemonEndpoints
    Field::new(3728, 8, 7, Shape::Value, Omit::Empty, Type::Message(156)), // nodeInfo
    Field::new(4113, 6, 8, Shape::List, Omit::Empty, Type::Message(158)), // images
    Field::new(2651, 12, 9, Shape::List, Omit::Empty, Type::String), // volumesInUse
    Field::new(2029, 15, 10, Shape::List, Omit::Empty, Type::Message(159)), // volumesAttached
    Field::new(1774, 6, 11, Shape::Pointer, Omit::Empty, Type::Message(160)), // config
    Field::new(1924, 15, 12, Shape::List, Omit::Empty, Type::Message(161)), // runtimeHandlers
    Field::new(3664, 8, 13, Shape::Pointer, Omit::Empty, Type::Message(163)), // features
    Field::new(1472, 16, 14, Shape::List, Omit::Empty, Type::String), // declaredFeatures
    // v1.NodeCondition
    Field::new(4322, 4, 1, Shape::Value, Omit::Never, Type::String), // type
    Field::new(4185, 6, 2, Shape::Value, Omit::Never, Type::String), // status
    Field::new(1252, 17, 3, Shape::Value, Omit::Empty, Type::Time), // lastHeartbeatTime
    Field::new(1042, 18, 4, Shape::Value, Omit::Empty, Type::Time), // lastTransitionTime
    Field::new(4167, 6, 5, Shape::Value, Omit::Empty, Type::String), // reason
    Field::new(3989, 7, 6, Shape::Value, Omit::Empty, Type::String), // message
    // v1.NodeAddress
    Field::new(4322, 4, 1, Shape::Value, Omit::Never, Type::String), // type
    Field::new(3267, 7, 2, Shape::Value, Omit::Never, Type::String), // address
    // v1.NodeDaemonEndpoints
    Field::new(1819, 15, 1, Shape::Value, Omit::Empty, Type::Message(155)), // kubeletEndpoint
    // v1.DaemonEndpoint
    Field::new(2261, 4, 1, Shape::Value, Omit::Never, Type::Int32), // Port
    // v1.NodeSystemInfo
    Field::new(3411, 9, 1, Shape::Value, Omit::Never, Type::String), // machineID
    Field::new(3207, 10, 2, Shape::Value, Omit::Never, Type::String), // systemUUID
    Field::new(4065, 6, 3, Shape::Value, Omit::Never, Type::String), // bootID
    Field::new(2291, 13, 4, Shape::Value, Omit::Never, Type::String), // kernelVersion
    Field::new(4003, 7, 5, Shape::Value, Omit::Never, Type::String), // osImage
    Field::new(436, 23, 6, Shape::Value, Omit::Never, Type::String), // containerRuntimeVersion
    Field::new(2072, 14, 7, Shape::Value, Omit::Never, Type::String), // kubeletVersion
    Field::new(1552, 16, 8, Shape::Value, Omit::Never, Type::String), // kubeProxyVersion
    Field::new(1834, 15, 9, Shape::Value, Omit::Never, Type::String), // operatingSystem
    Field::new(2447, 12, 10, Shape::Value, Omit::Never, Type::String), // architecture
    Field::new(4318, 4, 11, Shape::Pointer, Omit::Empty, Type::Message(157)), // swap
    Field::new(549, 22, 12, Shape::Pointer, Omit::Empty, Type::Bool), // runningInUserNamespace
    // v1.NodeSwapStatus
    Field::new(3632, 8, 1, Shape::Pointer, Omit::Empty, Type::Int64), // capacity
    // v1.ContainerImage
    Field::new(1286, 5, 1, Shape::List, Omit::Never, Type::String), // names
    Field::new(3510, 9, 2, Shape::Value, Omit::Empty, Type::Int64), // sizeBytes
    // v1.AttachedVolume
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(2977, 10, 2, Shape::Value, Omit::Never, Type::String), // devicePath
    // v1.NodeConfigStatus
    Field::new(3616, 8, 1, Shape::Pointer, Omit::Empty, Type::Message(148)), // assigned
    Field::new(593, 6, 2, Shape::Pointer, Omit::Empty, Type::Message(148)), // active
    Field::new(2317, 13, 3, Shape::Pointer, Omit::Empty, Type::Message(148)), // lastKnownGood
    Field::new(4215, 5, 4, Shape::Value, Omit::Empty, Type::String), // error
    // v1.NodeRuntimeHandler
    Field::new(1286, 4, 1, Shape::Value, Omit::Never, Type::String), // name
    Field::new(3664, 8, 2, Shape::Pointer, Omit::Empty, Type::Message(162)), // features
    // v1.NodeRuntimeHandlerFeatures
    Field::new(482, 23, 1, Shape::Pointer, Omit::Empty, Type::Bool), // recursiveReadOnlyMounts
    Field::new(2198, 14, 2, Shape::Pointer, Omit::Empty, Type::Bool), // userNamespaces
    // v1.NodeFeatures
    Field::new(388, 24, 1, Shape::Pointer, Omit::Empty, Type::Bool), // supplementalGroupsPolicy
    // v1.NodeList
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(5)), // metadata
    Field::new(4225, 5, 2, Shape::List, Omit::Never, Type::Message(145)), // items
    // v1.Namespace
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(1)), // metadata
    Field::new(4314, 4, 2, Shape::Value, Omit::Empty, Type::Message(166)), // spec
    Field::new(4185, 6, 3, Shape::Value, Omit::Empty, Type::Message(167)), // status
    // v1.NamespaceSpec
    Field::new(3017, 10, 1, Shape::List, Omit::Empty, Type::String), // finalizers
    // v1.NamespaceStatus
    Field::new(4240, 5, 1, Shape::Value, Omit::Empty, Type::String), // phase
    Field::new(2947, 10, 2, Shape::List, Omit::Empty, Type::Message(168)), // conditions
    // v1.NamespaceCondition
    Field::new(4322, 4, 1, Shape::Value, Omit::Never, Type::String), // type
    Field::new(4185, 6, 2, Shape::Value, Omit::Never, Type::String), // status
    Field::new(1042, 18, 4, Shape::Value, Omit::Empty, Type::Time), // lastTransitionTime
    Field::new(4167, 6, 5, Shape::Value, Omit::Empty, Type::String), // reason
    Field::new(3989, 7, 6, Shape::Value, Omit::Empty, Type::String), // message
    // v1.NamespaceList
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(5)), // metadata
    Field::new(4225, 5, 2, Shape::List, Omit::Never, Type::Message(165)), // items
    // v1.Status
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(5)), // metadata
    Field::new(4185, 6, 2, Shape::Value, Omit::Empty, Type::String), // status
    Field::new(3989, 7, 3, Shape::Value, Omit::Empty, Type::String), // message
    Field::new(4167, 6, 4, Shape::Value, Omit::Empty, Type::String), // reason
    Field::new(3863, 7, 5, Shape::Pointer, Omit::Empty, Type::Message(171)), // details
    Field::new(4274, 4, 6, Shape::Value, Omit::Empty, Type::Int32), // code
    // v1.StatusDetails
    Field::new(1286, 4, 1, Shape::Value, Omit::Empty, Type::String), // name
    Field::new(4220, 5, 2, Shape::Value, Omit::Empty, Type::String), // group
    Field::new(4290, 4, 3, Shape::Value, Omit::Empty, Type::String), // kind
    Field::new(4344, 3, 6, Shape::Value, Omit::Empty, Type::String), // uid
    Field::new(4071, 6, 4, Shape::List, Omit::Empty, Type::Message(172)), // causes
    Field::new(1371, 17, 5, Shape::Value, Omit::Empty, Type::Int32), // retryAfterSeconds
    // v1.StatusCause
    Field::new(4167, 6, 1, Shape::Value, Omit::Empty, Type::String), // reason
    Field::new(3989, 7, 2, Shape::Value, Omit::Empty, Type::String), // message
    Field::new(2997, 5, 3, Shape::Value, Omit::Empty, Type::String), // field
    // v1.PartialObjectMetadata
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(1)), // metadata
    // v1.PartialObjectMetadataList
    Field::new(3712, 8, 1, Shape::Value, Omit::Empty, Type::Message(5)), // metadata
    Field::new(4225, 5, 2, Shape::List, Omit::Never, Type::Message(173)), // items
    // v1.WatchEvent
    Field::new(4322, 4, 1, Shape::Value, Omit::Never, Type::String), // type
    Field::new(4137, 6, 2, Shape::Value, Omit::Never, Type::RawExtension), // object
];

/// The fields of each type by ascending number, as places among the fields of the type.
pub(super) static BY_NUMBER: [u8; 761] = [
    0, 2, 4, 3, 1, // v1.Secret
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, // v1.ObjectMeta
    1, 2, 3, 0, 4, 5, // v1.OwnerReference
    0, 1, 2, 3, 4, 5, 6, // v1.ManagedFieldsEntry
    0, 1, // v1.SecretList
    0, 1, 2, 3, 4, // v1.ListMeta
    0, // v1.ShardInfo
    0, 2, 3, 1, // v1.ConfigMap
    0, 1, // v1.ConfigMapList
    0, 1, 2, // v1.Pod
    0, 2, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 1, 11, 23, 24, 25, 26, 27, 16, 28, 29, 30, 31, 32, 33, 3, 34, 35, 36, 37, 38, 39, 40, 41, 42, // v1.PodSpec
    0, 1, // v1.Volume
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 24, 25, 23, 26, 27, 28, 29, // v1.VolumeSource
    0, 1, // v1.HostPathVolumeSource
    0, 1, 2, // v1.EmptyDirVolumeSource
    0, 1, 2, 3, // v1.GCEPersistentDiskVolumeSource
    0, 1, 2, 3, // v1.AWSElasticBlockStoreVolumeSource
    0, 1, 2, // v1.GitRepoVolumeSource
    0, 1, 2, 3, 4, // v1.SecretVolumeSource
    0, 1, 2, 3, // v1.KeyToPath
    0, 1, 2, // v1.NFSVolumeSource
    0, 1, 2, 3, 4, 5, 6, 7, 9, 8, 10, // v1.ISCSIVolumeSource
    0, // v1.LocalObjectReference
    0, 1, 2, // v1.GlusterfsVolumeSource
    0, 1, // v1.PersistentVolumeClaimVolumeSource
    0, 1, 2, 3, 4, 5, 6, 7, // v1.RBDVolumeSource
    0, 1, 2, 3, 4, // v1.FlexVolumeSource
    0, 1, 2, 3, // v1.CinderVolumeSource
    0, 1, 2, 3, 4, 5, // v1.CephFSVolumeSource
    0, 1, // v1.FlockerVolumeSource
    0, 1, 2, // v1.DownwardAPIVolumeSource
    0, 1, 2, 3, 4, // v1.DownwardAPIVolumeFile
    0, 1, // v1.ObjectFieldSelector
    0, 1, 2, // v1.ResourceFieldSelector
    0, 1, 2, 3, 4, // v1.FCVolumeSource
    0, 1, 2, // v1.AzureFileVolumeSource
    0, 1, 2, 3, 4, // v1.ConfigMapVolumeSource
    0, 1, 2, 3, // v1.VsphereVirtualDiskVolumeSource
    0, 1, 2, 3, 4, 5, // v1.QuobyteVolumeSource
    0, 1, 2, 3, 4, 5, // v1.AzureDiskVolumeSource
    0, 1, // v1.PhotonPersistentDiskVolumeSource
    0, 1, 2, // v1.ProjectedVolumeSource
    0, 1, 2, 3, 4, 5, // v1.VolumeProjection
    0, 1, 2, // v1.SecretProjection
    0, // v1.DownwardAPIProjection
    0, 1, 2, // v1.ConfigMapProjection
    0, 1, 2, 3, // v1.ServiceAccountTokenProjection
    0, 1, 2, 4, 3, 5, // v1.ClusterTrustBundleProjection
    0, 1, // v1.LabelSelector
    0, 1, 2, // v1.LabelSelectorRequirement
    0, 1, 2, 3, 4, 5, 6, 7, // v1.PodCertificateProjection
    0, 1, 2, // v1.PortworxVolumeSource
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, // v1.ScaleIOVolumeSource
    0, 1, 2, 3, 4, // v1.StorageOSVolumeSource
    0, 1, 2, 3, 4, // v1.CSIVolumeSource
    0, // v1.EphemeralVolumeSource
    0, 1, // v1.PersistentVolumeClaimTemplate
    0, 2, 3, 1, 4, 5, 6, 7, 8, // v1.PersistentVolumeClaimSpec
    0, 1, // v1.VolumeResourceRequirements
    0, 1, 2, // v1.TypedLocalObjectReference
    0, 1, 2, 3, // v1.TypedObjectReference
    0, 1, // v1.ImageVolumeSource
    0, 1, 2, 3, 4, 5, 7, 8, 12, 14, 15, 17, 18, 20, 21, 22, 23, 24, 6, 19, 13, 16, 9, 10, 11, // v1.Container
    0, 1, 2, 3, 4, // v1.ContainerPort
    0, 1, 2, // v1.EnvFromSource
    0, 1, // v1.ConfigMapEnvSource
    0, 1, // v1.SecretEnvSource
    0, 1, 2, // v1.EnvVar
    0, 1, 2, 3, 4, // v1.EnvVarSource
    0, 1, 2, // v1.ConfigMapKeySelector
    0, 1, 2, // v1.SecretKeySelector
    0, 1, 2, 3, // v1.FileKeySelector
    0, 1, 2, // v1.ResourceRequirements
    0, 1, // v1.ResourceClaim
    0, 1, // v1.ContainerResizePolicy
    0, 1, // v1.ContainerRestartRule
    0, 1, // v1.ContainerRestartRuleOnExitCodes
    0, 1, 3, 4, 5, 6, 2, 7, // v1.VolumeMount
    0, 1, // v1.VolumeDevice
    0, 1, 2, 3, 4, 5, 6, // v1.Probe
    0, 1, 2, 3, // v1.ProbeHandler
    0, // v1.ExecAction
    0, 1, 2, 3, 4, 5, // v1.HTTPGetAction
    0, 1, // v1.HTTPHeader
    0, 1, // v1.TCPSocketAction
    0, 1, 2, // v1.GRPCAction
    0, 1, 2, // v1.Lifecycle
    0, 1, 2, 3, // v1.LifecycleHandler
    0, // v1.SleepAction
    0, 1, 2, 4, 6, 7, 8, 5, 9, 3, 10, 11, // v1.SecurityContext
    0, 1, // v1.Capabilities
    0, 1, 2, 3, // v1.SELinuxOptions
    0, 1, 2, 3, // v1.WindowsSecurityContextOptions
    0, 1, // v1.SeccompProfile
    0, 1, // v1.AppArmorProfile
    0, 1, // v1.EphemeralContainer
    0, 1, 2, 3, 4, 5, 7, 8, 12, 14, 15, 17, 18, 20, 21, 22, 23, 24, 6, 19, 13, 16, 9, 10, 11, // v1.EphemeralContainerCommon
    0, 2, 4, 5, 7, 3, 8, 1, 9, 10, 11, 6, 12, // v1.PodSecurityContext
    0, 1, // v1.Sysctl
    0, 1, 2, // v1.Affinity
    0, 1, // v1.NodeAffinity
    0, // v1.NodeSelector
    0, 1, // v1.NodeSelectorTerm
    0, 1, 2, // v1.NodeSelectorRequirement
    0, 1, // v1.PreferredSchedulingTerm
    0, 1, // v1.PodAffinity
    0, 1, 2, 3, 4, 5, // v1.PodAffinityTerm
    0, 1, // v1.WeightedPodAffinityTerm
    0, 1, // v1.PodAntiAffinity
    0, 1, 2, 3, 4, // v1.Toleration
    0, 1, // v1.HostAlias
    0, 1, 2, // v1.PodDNSConfig
    0, 1, // v1.PodDNSConfigOption
    0, // v1.PodReadinessGate
    0, 1, 2, 3, 4, 5, 6, 7, // v1.TopologySpreadConstraint
    0, // v1.PodOS
    0, // v1.PodSchedulingGate
    0, 1, 2, // v1.PodResourceClaim
    0, // v1.PodSchedulingGroup
    0, 1, // v1.EvictionResponder
    1, 2, 3, 4, 6, 8, 10, 12, 13, 11, 5, 9, 14, 15, 16, 7, 0, 17, 18, 19, 20, 21, // v1.PodStatus
    0, 2, 3, 4, 5, 6, 1, // v1.PodCondition
    0, // v1.HostIP
    0, // v1.PodIP
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, // v1.ContainerStatus
    0, 1, 2, // v1.ContainerState
    0, 1, // v1.ContainerStateWaiting
    0, // v1.ContainerStateRunning
    0, 1, 2, 3, 4, 5, 6, // v1.ContainerStateTerminated
    0, 1, 2, 3, 4, // v1.VolumeMountStatus
    0, // v1.VolumeStatus
    0, // v1.ImageVolumeStatus
    0, // v1.ContainerUser
    0, 1, 2, // v1.LinuxContainerUser
    0, 1, // v1.ResourceStatus
    0, 1, 2, // v1.ResourceHealth
    0, 1, // v1.PodResourceClaimStatus
    0, 1, // v1.PodExtendedResourceClaimStatus
    0, 1, 2, // v1.ContainerExtendedResourceRequest
    0, 1, 2, 3, // v1.NodeAllocatableResourceClaimStatus
    0, 1, // v1.NodeAllocatableMappedResources
    0, 1, 2, // v1.NodeAllocatableOverheadResources
    0, 1, 2, // v1.PodVolumeHealth
    0, 1, 2, // v1.VolumeHealthCondition
    0, 1, // v1.PodList
    0, 1, 2, // v1.Node
    0, 6, 2, 3, 4, 5, 1, 7, // v1.NodeSpec
    0, 1, 2, 3, // v1.Taint
    0, // v1.NodeConfigSource
    0, 1, 2, 3, 4, // v1.ConfigMapNodeConfigSource
    0, // v1.NodePodPreemptionPolicy
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, // v1.NodeStatus
    0, 1, 2, 3, 4, 5, // v1.NodeCondition
    0, 1, // v1.NodeAddress
    0, // v1.NodeDaemonEndpoints
    0, // v1.DaemonEndpoint
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, // v1.NodeSystemInfo
    0, // v1.NodeSwapStatus
    0, 1, // v1.ContainerImage
    0, 1, // v1.AttachedVolume
    0, 1, 2, 3, // v1.NodeConfigStatus
    0, 1, // v1.NodeRuntimeHandler
    0, 1, // v1.NodeRuntimeHandlerFeatures
    0, // v1.NodeFeatures
    0, 1, // v1.NodeList
    0, 1, 2, // v1.Namespace
    0, // v1.NamespaceSpec
    0, 1, // v1.NamespaceStatus
    0, 1, 2, 3, 4, // v1.NamespaceCondition
    0, 1, // v1.NamespaceList
    0, 1, 2, 3, 4, 5, // v1.Status
    0, 1, 2, 4, 5, 3, // v1.StatusDetails
    0, 1, 2, // v1.StatusCause
    0, // v1.PartialObjectMetadata
    0, 1, // v1.PartialObjectMetadataList
    0, 1, // v1.WatchEvent
];

/// The names of all fields in JSON.
pub(super) static NAMES: &str = "\
    preferredDuringSchedulingIgnoredDuringExecutionrequiredDuringSchedulingIgnoredDuringExecutionnodeAllocatableResourceClai\
    mStatusesterminationGracePeriodSecondsautomountServiceAccountTokenextendedResourceClaimStatusdeletionGracePeriodSecondse\
    phemeralContainerStatusesresourceClaimTemplateNametopologySpreadConstraintsvolumeAttributesClassNameallocatedResourcesSt\
    atusallowPrivilegeEscalationsupplementalGroupsPolicyterminationMessagePolicycontainerRuntimeVersiondisableResizePreempti\
    onrecursiveReadOnlyMountsgmsaCredentialSpecNamereadOnlyRootFilesystemrunningInUserNamespaceterminationMessagePathactiveD\
    eadlineSecondsinitContainerStatusespersistentVolumeClaimresourceClaimStatusesshareProcessNamespaceawsElasticBlockStorece\
    rtificateChainPathcredentialBundlePathmaxExpirationSecondsnodePublishSecretRefphotonPersistentDiskephemeralContainersfsG\
    roupChangePolicyinitialDelaySecondspodPreemptionPolicyseLinuxChangePolicyserviceAccountTokentargetContainerNamevolumeCla\
    imTemplateblockOwnerDeletionclusterTrustBundleenableServiceLinksevictionResponderslastTransitionTimenodeAffinityPolicyob\
    servedGenerationremainingItemCountrestartPolicyRulesserviceAccountNamechapAuthDiscoverycontainerStatusescreationTimestam\
    pdeletionTimestampexpirationSecondsgcePersistentDisklastHeartbeatTimemismatchLabelKeysnamespaceSelectornodeSelectorTerms\
    nominatedNodeNamepriorityClassNameresourceClaimNameretryAfterSecondssetHostnameAsFQDNstoragePolicyNametolerationSecondsw\
    henUnsatisfiablebindMountOptionsdeclaredFeaturesfailureThresholdhealthConditionshostnameOverrideimagePullSecretskubeProx\
    yVersionkubeletConfigKeylocalhostProfilematchExpressionsmountPropagationnodeTaintsPolicypreemptionPolicyprotectionDomain\
    resourceFieldRefruntimeClassNamestorageClassNamesuccessThresholdappArmorProfilechapAuthSessionconfigMapKeyRefdaemonEndpo\
    intsimagePullPolicykubeletEndpointoperatingSystemownerReferencespodAffinityTermpodAntiAffinityrequestMappingsresourceVer\
    sionruntimeHandlersschedulingGatesschedulingGroupsecurityContextstoragePolicyIDuserAnnotationsvolumeNamespacevolumesAtta\
    chedinitContainersiscsiInterfacekubeletVersionpodCertificateportworxVolumereadinessGatesreadinessProberesourceClaimsseLi\
    nuxOptionsseccompProfiletimeoutSecondsuserNamespaceswindowsOptionsconditionTypecontainerNamecontainerPortdataSourceRefin\
    itiatorNamekernelVersionlabelSelectorlastKnownGoodlastProbeTimelivenessProbemanagedFieldsperiodSecondsrunAsUserNamesched\
    ulerNameunschedulablevolumeDevicesvsphereVolumearchitecturecapabilitiesconfigMapRefconfigSourcegenerateNameperContainerp\
    odGroupNameresizePolicyresourceNamerestartCountrunAsNonRootsecretKeyRefstartupProbetargetPortalvolumeHealthvolumeMountsv\
    olumeStatusvolumesInUseaccessModesallocatableannotationscachingModecontainerIDdatasetNamedatasetUUIDdefaultModedefaultUs\
    erdownwardAPIhostAliaseshostNetworkhostProcesshttpHeadersmatchFieldsmatchLabelsnameserversrequestNamestorageModestorageP\
    oolsubPathExprsubresourcetolerationstopologyKeyapiVersionbinaryDataconditionscontainerscontrollerdevicePathexternalIDfie\
    ldsTypefileKeyReffinalizersfinishedAtflexVolumegenerationminDomainsnamespacespreferenceprivilegedproviderIDpullPolicyrep\
    ositoryresourceIDrunAsGroupsecretFilesecretNamesignerNamesslEnabledstopSignalstringDatasystemUUIDtargetWWNsterminatedvol\
    umeModevolumePathworkingDiraddressesazureDiskazureFileclaimNamedirectorydnsConfigdnsPolicyendpointsexitCodesfieldPathglu\
    sterfshostUsershostnamesimmutablelastStatelifecyclemachineIDmountPathoperationpartitionpostStartprocMountprojectedresour\
    cessecretRefshardInfoshareNamesizeBytessizeLimitstartTimestartedAtstdinOncestorageossubdomaintcpSockettimeAddedvalueFrom\
    affinityapiGroupassignedaudiencecapacitycontinuediskNameemptyDirfeaturesfieldReffieldsV1hostPathhostPortimageRefmetadata\
    monitorsnodeInfonodeNameoperatoroptionaloverheadpodCIDRsprotocolqosClassquantityregistryrequestsrevisionsearchesselector\
    selfLinkvolumeIDcommanddetailsdiskURIdivisorenvFromflockergatewaygitRepohostIPChostIPshostPIDhttpGetimageIDkeyPathkeyTyp\
    ekeyringmanagermappingmaxSkewmessageoptionsosImageportalspreStopquobytescaleIOsecondssysctlswaitingactionbootIDcausescep\
    hfscinderclaimsdrivereffectfsTypeimageslabelslimitsmediumobjectpdNameperPodpodIPsprefixreasonschemesignalstatustaintsten\
    antvaluesweighterrorgroupitemslevellinuxphaseportsreadysleepstatewwidsargscodedropexecgrpckindmodepathpdIDpoolrolespecsw\
    aptypegidiqnlunnfsrbdttyuidip\
    ";
