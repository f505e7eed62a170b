package oracle

import (
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/container"
)

// The races that a trace cannot reach, on the original: each test here and in objectraces_test.go has a namesake among the
// tests of larder-pod-status (tests/it/races.rs) or larder-objects (tests/it/interleavings.rs), which explore larder's
// schedules and demand the same. What only larder can do (drop a wait, give it a deadline, leave a fetch) has none.

// rounds is how often each race is run; a round has few goroutines, which all start at once.
const rounds = 2_000

// together runs the functions side by side from one starting shot, until all have ended.
func together(functions ...func()) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for _, function := range functions {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			function()
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

func repeat(t *testing.T, round func(t *testing.T)) {
	t.Helper()
	for range rounds {
		if round(t); t.Failed() {
			return
		}
	}
}

func at(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds) }

func podStatus(name string) *container.PodStatus { return &container.PodStatus{Name: name} }

// newer is the name of the status that a wait gave, empty for that of a pod that is not cached.
func newer(cache container.Cache, uid types.UID, minimum int64) string {
	status, err := cache.GetNewerThan(uid, at(minimum))
	if err != nil {
		return "error: " + err.Error()
	}
	return status.Name
}

func one(t *testing.T, what, got string, allowed ...string) {
	t.Helper()
	if !slices.Contains(allowed, got) {
		t.Errorf("%s gave %q, not one of %q", what, got, allowed)
	}
}

func TestPodIsDeletedDuringWait(t *testing.T) {
	repeat(t, func(t *testing.T) {
		cache := container.NewCache()
		wait := func(minimum int64) func() {
			return func() { one(t, "the wait", newer(cache, "a", minimum), "1", "") }
		}
		together(wait(4), wait(5), func() {
			cache.Set("a", podStatus("1"), nil, at(5))
			cache.Delete("a")
			cache.UpdateTime(at(7))
		})
	})
}

func TestWaitBeginsAsItsTimeArrives(t *testing.T) {
	repeat(t, func(t *testing.T) {
		cache := container.NewCache()
		wait := func(uid types.UID, minimum int64, answer string) func() {
			return func() { one(t, "the wait", newer(cache, uid, minimum), answer) }
		}
		together(wait("a", 4, "1"), wait("b", 4, ""), wait("a", 3, "1"), func() {
			cache.Set("a", podStatus("1"), nil, at(5))
			cache.UpdateTime(at(5))
		})
	})
}

func TestWaitBeginsAsExactlyItsTimeArrives(t *testing.T) {
	repeat(t, func(t *testing.T) {
		cache := container.NewCache()
		together(
			func() { one(t, "the wait", newer(cache, "a", 5), "1", "2") },
			func() {
				cache.Set("a", podStatus("1"), nil, at(5))
				// A wait that has begun since then is for what is later.
				cache.Set("a", podStatus("2"), nil, at(6))
			},
		)
	})
}

func TestManyWaitsAndManyTimes(t *testing.T) {
	repeat(t, func(t *testing.T) {
		cache := container.NewCache()
		functions := []func(){func() {
			for _, time := range []int64{2, 1, 4} {
				cache.UpdateTime(at(time))
			}
		}}
		for _, pod := range []struct {
			uid     types.UID
			minimum int64
		}{{"a", 1}, {"a", 2}, {"b", 2}, {"c", 3}} {
			functions = append(functions, func() { one(t, "the wait", newer(cache, pod.uid, pod.minimum), "") })
		}
		together(functions...)
	})
}

func TestReadersSeeWritersOrder(t *testing.T) {
	repeat(t, func(t *testing.T) {
		cache := container.NewCache()
		read := func() {
			var seen []string
			for range 3 {
				status, _ := cache.Get("a")
				seen = append(seen, status.Name)
			}
			if !slices.IsSorted(seen) {
				t.Errorf("a reader saw %q", seen)
			}
		}
		together(read, read, func() {
			for time, name := range []string{"1", "2", "3"} {
				cache.Set("a", podStatus(name), nil, at(int64(time)))
				cache.SetObservedTime("a", at(9))
			}
		})
	})
}

func TestOlderDataNeverReplacesNewerInEitherOrder(t *testing.T) {
	if err := setEvented(true); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := setEvented(false); err != nil {
			t.Error(err)
		}
	}()
	repeat(t, func(t *testing.T) {
		cache := container.NewCache()
		set := func(name string, time int64) func() {
			return func() {
				if updated := cache.Set("a", podStatus(name), nil, at(time)); !updated && name == "3" {
					t.Error("the newest was refused")
				}
			}
		}
		together(set("2", 2), set("1", 1), set("3", 3), func() {
			one(t, "the wait", newer(cache, "a", 2), "2", "3")
		})
		status, _ := cache.Get("a")
		one(t, "the cache", status.Name, "3")
	})
}
