// Package oracle runs larder's traces on the kubelet's own caches.
//
// It links pkg/kubelet, with pkg/kubelet/container and pkg/kubelet/util/manager, of k8s.io/kubernetes as ordinary dependencies and
// contains none of their source. What it prints for a trace is by definition right: larder's replay of the same trace has to give
// the same lines, compared as JSON values. crates/larder-sim/TRACES.md describes both.
//
// The program is a test binary, because testing/synctest tells when every goroutine of a trace is blocked, and so which
// newer-than waits are answered by which operation:
//
//	go test -c -o oracle.test .
//	./oracle.test -answer traces < traces.jsonl
//
// Input and output are lines of JSON. The modes are
//
//	traces      one trace after another, each beginning with its header: the result lines of each, one after another;
//	            an empty line ends a trace before the next one begins, and has what is answered so far printed
//	values      {"parse":"duration"|"seconds"|"resource_version","text":"..."}: {"value":"..."} or {"error":true}
//	kubeconfigs paths of kubeconfigs, as strings: what client-go makes of each, its certificates, what it sends with a request
//	            and what it tells a credential plugin, or {"refused":"why"}
//	manifests   manifests, as strings: the Pod, Secret or ConfigMap that the kubelet's decoder makes of each, or
//	            {"refused":"why"}
//	certificates kinds of keys and of certificates, as strings, such as "p256" or "rsa2048-v1": a certificate and its key,
//	            made for the answer; those of one kind share their key
//	references  pods (v1): {"config_maps":[names],"secrets":[names]} as the kubelet's visitors find them
//	tables      {"now":time,"include":"None"|"Metadata"|"Object","object":object or list} or "bookmark" in the place of "object":
//	            {"table":Table,"metadata":PartialObjectMetadata or its list} as the API server gives them at that time, whole
//	            objects left out, or {"refused":"why"}; no time is before that of the line above
//	pods        {"pod":pod (v1),"active":sandbox,"containers":[the containers that the runtime has, newest first]}: the statuses of
//	            the containers, the phase and the conditions of containers that the kubelet gives the pod
//	schema      nothing: the table of the types that larder-protobuf has, as Rust
//	protobuf    {"kind":"Pod","seed":N}: a random message as {"protobuf":base64,"its_json":"...","json":"...","its_protobuf":base64}, each form
//	            with what the API server's serializers make of it in the other; {"quantity":"..."}: {"quantity":"..."} as Go writes it,
//	            or {"refused":true}
//
// A line that is not as it should be gives {"bad":"why","line":N}, where N counts from 1 in the trace; the rest of the
// trace is passed over. The program ends with code 2, and says why, where it cannot go on. Without -answer the binary runs its tests: the races that traces cannot reach.
package oracle
