package oracle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/util/manager"
	testingclock "k8s.io/utils/clock/testing"
)

// objectsTrace replays one trace of kind "objects": the kubelet's TTL store under its cache-based manager, with an API
// server and a node that are a part of the trace.
type objectsTrace struct {
	clock   *testingclock.FakeClock
	store   manager.Store
	manager manager.Manager

	server map[types.NamespacedName]*served
	// The node's annotation, nil where it has none; nodeFails where the node cannot be read.
	annotation *string
	nodeFails  bool
	// The fetches of the read under way.
	fetches []result
}

// served is what the API server answers for one object.
type served struct {
	// Exactly one of the two is set, or neither where the object does not exist.
	object *v1.ConfigMap
	code   int
	// What reads with resourceVersion "0" see instead.
	cached *v1.ConfigMap
}

var resource = v1.Resource("configmaps")

func newObjectsTrace(defaultTTL time.Duration) *objectsTrace {
	o := &objectsTrace{
		clock:  testingclock.NewFakeClock(time.Unix(0, 0)),
		server: map[types.NamespacedName]*served{},
	}
	ttl := manager.GetObjectTTLFromNodeFunc(context.Background(), o.node)
	o.store = manager.NewObjectStore(o.fetch, o.clock, ttl, defaultTTL)
	o.manager = manager.NewCacheBasedManager(o.store, referencesOf)
	return o
}

// referencesOf reads the names that podOf put into the pod.
func referencesOf(pod *v1.Pod) sets.Set[string] {
	names := sets.New[string]()
	for _, reference := range pod.Spec.ImagePullSecrets {
		names.Insert(reference.Name)
	}
	return names
}

func podOf(f fields, needRefs bool) (*v1.Pod, error) {
	namespace, err1 := need[string](f, "ns")
	name, err2 := need[string](f, "name")
	uid, err3 := need[types.UID](f, "uid")
	refs, err4 := optional[[]*string](f, "refs")
	if err4 == nil && refs == nil && needRefs {
		_, err4 = need[[]*string](f, "refs")
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}}
	if refs != nil {
		for _, ref := range *refs {
			if ref == nil {
				return nil, errors.New(`field "refs": a name is null`)
			}
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: *ref})
		}
	}
	return pod, nil
}

func (o *objectsTrace) node(context.Context) (*v1.Node, error) {
	if o.nodeFails {
		return nil, errors.New("the node cannot be read")
	}
	node := &v1.Node{}
	if o.annotation != nil {
		node.Annotations = map[string]string{v1.ObjectTTLAnnotationKey: *o.annotation}
	}
	return node, nil
}

// fetch answers as a client does: with an error comes an empty object, not nil.
func (o *objectsTrace) fetch(namespace, name string, options metav1.GetOptions) (runtime.Object, error) {
	fromCache := options.ResourceVersion == "0"
	if !fromCache && options.ResourceVersion != "" {
		panic("a read with resourceVersion " + options.ResourceVersion)
	}
	o.fetches = append(o.fetches, result{"from_cache": fromCache})
	s := o.server[types.NamespacedName{Namespace: namespace, Name: name}]
	switch {
	case s == nil:
		return &v1.ConfigMap{}, apierrors.NewNotFound(resource, name)
	case fromCache && s.cached != nil:
		return s.cached, nil
	case s.object != nil:
		return s.object, nil
	case s.code != 0:
		return &v1.ConfigMap{}, apierrors.NewGenericServerResponse(s.code, "get", resource, name, "", 0, true)
	default:
		return &v1.ConfigMap{}, apierrors.NewNotFound(resource, name)
	}
}

func (o *objectsTrace) step(f fields) (result, error) {
	op, err := need[string](f, "op")
	if err != nil {
		return nil, err
	}
	switch op {
	case "server_put", "server_cache", "server_delete", "server_fail":
		return o.serverStep(op, f)
	case "node_ttl":
		value, err := needNullable[string](f, "value")
		if err != nil {
			return nil, err
		}
		o.annotation, o.nodeFails = value, false
	case "node_fail":
		o.nodeFails = true
	case "advance":
		text, err := need[string](f, "by")
		if err != nil {
			return nil, err
		}
		by, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", "by", err)
		}
		o.clock.Step(by)
	case "register", "unregister":
		pod, err := podOf(f, op == "register")
		if err != nil {
			return nil, err
		}
		if op == "register" {
			o.manager.RegisterPod(pod)
		} else {
			o.manager.UnregisterPod(pod)
		}
	case "add_reference", "delete_reference":
		key, err1 := keyOf(f)
		uid, err2 := need[types.UID](f, "uid")
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if op == "add_reference" {
			o.store.AddReference(key.Namespace, key.Name, uid)
		} else {
			o.store.DeleteReference(key.Namespace, key.Name, uid)
		}
	case "get":
		key, err := keyOf(f)
		if err != nil {
			return nil, err
		}
		return o.get(key), nil
	default:
		return nil, fmt.Errorf("unknown operation %q", op)
	}
	return result{}, nil
}

func (o *objectsTrace) serverStep(op string, f fields) (result, error) {
	key, err := keyOf(f)
	if err != nil {
		return nil, err
	}
	switch op {
	case "server_put", "server_cache":
		version, err1 := need[string](f, "rv")
		data, err2 := need[string](f, "data")
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		object := &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: version},
			Data:       map[string]string{"data": data},
		}
		if op == "server_put" {
			o.server[key] = &served{object: object}
		} else {
			if o.server[key] == nil {
				o.server[key] = &served{}
			}
			o.server[key].cached = object
		}
	case "server_delete":
		delete(o.server, key)
	case "server_fail":
		code, err := need[int](f, "code")
		if err != nil {
			return nil, err
		}
		if code < 400 || code > 599 {
			return nil, fmt.Errorf("field %q is %d, not 400 to 599", "code", code)
		}
		o.server[key] = &served{code: code}
	}
	return result{}, nil
}

func (o *objectsTrace) get(key types.NamespacedName) result {
	o.fetches = []result{}
	object, err := o.manager.GetObject(key.Namespace, key.Name)
	r := result{"fetches": o.fetches}
	if err != nil {
		r["error"] = errorWord(err)
		return r
	}
	found := object.(*v1.ConfigMap)
	r["rv"] = found.ResourceVersion
	r["data"] = found.Data["data"]
	return r
}

func (o *objectsTrace) end() result { return result{"end": true} }

func (o *objectsTrace) release() {}

// errorWord is the trace's word for what the original returned.
func errorWord(err error) string {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsNotFound(err):
		return "not_found"
	case errors.As(err, &status):
		return fmt.Sprintf("status_%d", status.Status().Code)
	case strings.HasSuffix(err.Error(), "not registered"):
		return "not_registered"
	default:
		return "unexpected: " + err.Error()
	}
}

func keyOf(f fields) (types.NamespacedName, error) {
	namespace, err1 := need[string](f, "ns")
	name, err2 := need[string](f, "name")
	return types.NamespacedName{Namespace: namespace, Name: name}, errors.Join(err1, err2)
}
