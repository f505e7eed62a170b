package oracle

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/util/manager"
	"k8s.io/utils/clock"
)

var (
	errUnavailable = apierrors.NewServiceUnavailable("away")
	errAbsent      = apierrors.NewNotFound(resource, "x")
)

// slowServer answers as of when a fetch begins, and some time later.
type slowServer struct {
	lock    sync.Mutex
	version string
	failure error
	// How many fetches there were, how many are under way, and how many were at once.
	fetches, open, mostOpen int
}

func (s *slowServer) set(version string, failure error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.version, s.failure = version, failure
}

func (s *slowServer) counts() (fetches, mostOpen int) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.fetches, s.mostOpen
}

func (s *slowServer) fetch(string, string, metav1.GetOptions) (apiruntime.Object, error) {
	s.lock.Lock()
	s.fetches++
	s.open++
	s.mostOpen = max(s.mostOpen, s.open)
	version, failure := s.version, s.failure
	s.lock.Unlock()

	// Long enough for the others to come in between.
	runtime.Gosched()
	runtime.Gosched()

	s.lock.Lock()
	s.open--
	s.lock.Unlock()
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}, failure
}

// emptyStore has a server and no reference.
func emptyStore(version string, failure error, ttl time.Duration) (manager.Store, *slowServer) {
	server := &slowServer{version: version, failure: failure}
	node := func() (time.Duration, bool) { return 0, false }
	return manager.NewObjectStore(server.fetch, clock.RealClock{}, node, ttl), server
}

func newStore(version string, failure error, ttl time.Duration) (manager.Store, *slowServer) {
	store, server := emptyStore(version, failure, ttl)
	store.AddReference("a", "x", "u")
	return store, server
}

// readVersion reads the object: its version, or the trace's word for why there is none.
func readVersion(get func(string, string) (apiruntime.Object, error), name string) string {
	object, err := get("a", name)
	if err != nil {
		return errorWord(err)
	}
	return object.(*v1.ConfigMap).ResourceVersion
}

func reader(t *testing.T, store manager.Store, allowed ...string) func() {
	return func() { one(t, "a read", readVersion(store.Get, "x"), allowed...) }
}

func TestReadIsAsNewAsReferenceAddedBeforeIt(t *testing.T) {
	repeat(t, func(t *testing.T) {
		store, server := newStore("1", nil, time.Hour)
		together(reader(t, store, "1", "2"), reader(t, store, "1", "2"), func() {
			server.set("2", nil)
			store.AddReference("a", "x", "v")
			reader(t, store, "2")()
			// And it stays: no older fetch replaces it.
			reader(t, store, "2")()
		})
		reader(t, store, "2")()
		if fetches, _ := server.counts(); fetches > 2 {
			t.Errorf("%d fetches for two generations", fetches)
		}
	})
}

func TestReadersShareFetch(t *testing.T) {
	repeat(t, func(t *testing.T) {
		store, server := newStore("1", nil, time.Hour)
		read := reader(t, store, "1")
		together(read, read, read)
		if fetches, _ := server.counts(); fetches != 1 {
			t.Errorf("%d fetches", fetches)
		}
	})
}

func TestWithoutTTLEachReaderFetchesOneAfterAnother(t *testing.T) {
	repeat(t, func(t *testing.T) {
		store, server := newStore("1", nil, 0)
		read := reader(t, store, "1")
		together(read, read, read)
		if fetches, mostOpen := server.counts(); fetches != 3 || mostOpen != 1 {
			t.Errorf("%d fetches, %d at once", fetches, mostOpen)
		}
	})
}

func TestAfterFailureEachWaiterFetchesItself(t *testing.T) {
	for word, failure := range map[string]error{"status_503": errUnavailable, "not_found": errAbsent} {
		repeat(t, func(t *testing.T) {
			store, server := newStore("", failure, time.Hour)
			read := reader(t, store, word)
			together(read, read, read)
			if fetches, mostOpen := server.counts(); fetches != 3 || mostOpen != 1 {
				t.Errorf("%d fetches, %d at once", fetches, mostOpen)
			}
		})
	}
}

func TestObjectThatAppearsIsSeenByWhoeverReadsAfter(t *testing.T) {
	repeat(t, func(t *testing.T) {
		store, server := newStore("", errAbsent, time.Hour)
		read := reader(t, store, "1", "not_found")
		together(read, read, func() {
			server.set("1", nil)
			reader(t, store, "1")()
		})
	})
}

func TestReferenceDroppedDuringFetchLeavesNothingBehind(t *testing.T) {
	repeat(t, func(t *testing.T) {
		store, server := newStore("1", nil, time.Hour)
		read := reader(t, store, "1", "not_registered")
		together(read, read, func() {
			store.DeleteReference("a", "x", "u")
			reader(t, store, "not_registered")()
		})
		server.set("2", nil)
		store.AddReference("a", "x", "u")
		reader(t, store, "2")()
	})
}

func podReferringTo(uid types.UID, name string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "pod", UID: uid}}
	pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: name}}
	return pod
}

func TestPodsThatComeAndGoWhileOthersRead(t *testing.T) {
	repeat(t, func(t *testing.T) {
		store, _ := emptyStore("1", nil, time.Hour)
		pods := manager.NewCacheBasedManager(store, referencesOf)
		read := func(name string, allowed ...string) {
			one(t, "a read of "+name, readVersion(pods.GetObject, name), allowed...)
		}
		together(
			func() {
				pods.RegisterPod(podReferringTo("u1", "x"))
				// While a pod is registered, its objects can be read.
				read("x", "1")
				pods.UnregisterPod(podReferringTo("u1", "x"))
			},
			func() {
				pods.RegisterPod(podReferringTo("u2", "x"))
				pods.RegisterPod(podReferringTo("u2", "y"))
				read("y", "1")
			},
			func() { read("x", "1", "not_registered") },
		)
		read("x", "not_registered")
		read("y", "1")
	})
}

func TestOnePodRegisteredAndUnregisteredBySeveral(t *testing.T) {
	repeat(t, func(t *testing.T) {
		store, _ := emptyStore("1", nil, time.Hour)
		pods := manager.NewCacheBasedManager(store, referencesOf)
		register := func(name string) { pods.RegisterPod(podReferringTo("u", name)) }
		together(
			func() { register("x") },
			func() {
				register("y")
				pods.UnregisterPod(podReferringTo("u", "y"))
			},
			func() { register("x") },
		)
		// It was registered last with x, or not at all.
		one(t, "a read of y", readVersion(pods.GetObject, "y"), "not_registered")
		registered := readVersion(pods.GetObject, "x")
		one(t, "a read of x", registered, "1", "not_registered")
		pods.UnregisterPod(podReferringTo("u", "x"))
		one(t, "a read of x", readVersion(pods.GetObject, "x"), "not_registered")
	})
}

func TestErrorsHaveTheTracesWords(t *testing.T) {
	one(t, "a failure", errorWord(errUnavailable), "status_503")
	one(t, "an absence", errorWord(errAbsent), "not_found")
	one(t, "another error", errorWord(errors.New("other")), "unexpected: other")
}
