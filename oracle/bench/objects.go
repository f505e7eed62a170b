package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet/util/manager"
	"k8s.io/utils/clock"
)

//go:embed pod.json
var podTemplate string

const (
	namespaces    = 50
	secretsPerPod = 4
)

// named is the n-th pod's namespace, and the name of one of its Secrets.
func named(n, secret int) types.NamespacedName {
	return types.NamespacedName{Namespace: fmt.Sprintf("team-%02d", n%namespaces), Name: fmt.Sprintf("web-%05d-secret-%d", n, secret)}
}

func makePods(count int) []*v1.Pod {
	all := make([]*v1.Pod, count)
	for n, uid := range uids(count) {
		replace := []string{
			"POD-NAMESPACE", named(n, 0).Namespace,
			"POD-NAME", fmt.Sprintf("web-5d9c7b8f6c-%05d", n),
			"POD-UID", string(uid),
		}
		for secret := range secretsPerPod {
			replace = append(replace, fmt.Sprintf("SECRET-%d", secret), named(n, secret).Name)
		}
		all[n] = &v1.Pod{}
		if err := json.Unmarshal([]byte(strings.NewReplacer(replace...).Replace(podTemplate)), all[n]); err != nil {
			fail(err.Error())
		}
	}
	return all
}

// secretNames is what the kubelet's secret manager finds in a pod.
func secretNames(pod *v1.Pod) sets.Set[string] {
	names := sets.New[string]()
	podutil.VisitPodSecretNames(pod, func(name string) bool {
		names.Insert(name)
		return true
	})
	return names
}

// fetchJSON answers with what the API server would send, decoded.
func fetchJSON(namespace, name string, _ metav1.GetOptions) (runtime.Object, error) {
	text := fmt.Sprintf(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"%s","namespace":"%s","resourceVersion":"1"}}`, name, namespace)
	secret := &v1.Secret{}
	return secret, json.Unmarshal([]byte(text), secret)
}

// fetchEmpty answers with a Secret that has nothing at all.
func fetchEmpty(string, string, metav1.GetOptions) (runtime.Object, error) { return &v1.Secret{}, nil }

// newManager is the kubelet's TTL store under its cache-based manager, on a node that has the TTL's annotation.
func newManager(fetch manager.GetObjectFunc) manager.Manager {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.ObjectTTLAnnotationKey: "3600"}}}
	ttl := manager.GetObjectTTLFromNodeFunc(context.Background(), func(context.Context) (*v1.Node, error) { return node, nil })
	store := manager.NewObjectStore(fetch, clock.RealClock{}, ttl, time.Minute)
	return manager.NewCacheBasedManager(store, secretNames)
}

// registered is a manager that knows the pods and has fetched all that they refer to, with the names of that.
func registered(count int, fetch manager.GetObjectFunc) (manager.Manager, []types.NamespacedName) {
	m := newManager(fetch)
	for _, pod := range makePods(count) {
		m.RegisterPod(pod)
	}
	return m, fetchAll(m, count)
}

func fetchAll(m manager.Manager, pods int) []types.NamespacedName {
	var all []types.NamespacedName
	for n := range pods {
		for secret := range secretsPerPod {
			name := named(n, secret)
			if _, err := m.GetObject(name.Namespace, name.Name); err != nil {
				fail(err.Error())
			}
			all = append(all, name)
		}
	}
	return all
}

func getObject(threads int) float64 {
	m, names := registered(250, fetchJSON)
	return getObjects(m, shuffled(names), threads)
}

func getHotObject(threads int) float64 {
	m, names := registered(250, fetchJSON)
	return getObjects(m, names[:1], threads)
}

func getObjects(m manager.Manager, names []types.NamespacedName, threads int) float64 {
	return nanosPerOperation(threads, func(thread, operations int) {
		own := from(names, thread, threads)
		for range operations {
			name := own.next()
			if object, err := m.GetObject(name.Namespace, name.Name); object == nil || err != nil {
				fail("an object is gone")
			}
		}
	})
}

// registerUnregister is one pod that comes and goes, beside so many that stay.
func registerUnregister(others int) float64 {
	m, all := newManager(fetchJSON), makePods(2*others)
	for _, pod := range all[others:] {
		m.RegisterPod(pod)
	}
	coming := shuffled(all[:others])
	return nanosPerOperation(1, func(_, operations int) {
		own := from(coming, 0, 1)
		for range operations {
			pod := own.next()
			m.RegisterPod(pod)
			m.UnregisterPod(pod)
		}
	})
}

func registerAgain(count int) float64 {
	m, all := newManager(fetchJSON), makePods(count)
	for _, pod := range all {
		m.RegisterPod(pod)
	}
	again := shuffled(all)
	return nanosPerOperation(1, func(_, operations int) {
		own := from(again, 0, 1)
		for range operations {
			m.RegisterPod(own.next())
		}
	})
}

func memoryRegistered(count int) float64 {
	all := makePods(count)
	return bytesPer(count*secretsPerPod, func() any {
		m := newManager(fetchJSON)
		for _, pod := range all {
			m.RegisterPod(pod)
		}
		return m
	})
}

func memoryFetched(count int) float64 { return memoryOf(count, fetchJSON) }

func memoryFetchedEmpty(count int) float64 { return memoryOf(count, fetchEmpty) }

func memoryOf(count int, fetch manager.GetObjectFunc) float64 {
	all := makePods(count)
	return bytesPer(count*secretsPerPod, func() any {
		m := newManager(fetch)
		for _, pod := range all {
			m.RegisterPod(pod)
		}
		fetchAll(m, count)
		return m
	})
}
