package main

import (
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/container"
)

// pods are those of a large node, several times over.
const pods = 1_000

// later is a time that no operation reaches.
const later = 1 << 50

func at(nanos int) time.Time { return time.Unix(0, int64(nanos)) }

// filled is a cache that has a status for each pod.
func filled(uids []types.UID) container.Cache {
	cache := container.NewCache()
	for _, uid := range uids {
		cache.Set(uid, &container.PodStatus{ID: uid}, nil, at(0))
	}
	return cache
}

func getStatus(threads int) float64 {
	all := uids(pods)
	cache, keys := filled(all), shuffled(all)
	return nanosPerOperation(threads, func(thread, operations int) { getAll(cache, from(keys, thread, threads), operations) })
}

func getAll(cache container.Cache, keys cycle[types.UID], operations int) {
	for range operations {
		if status, err := cache.Get(keys.next()); status == nil || err != nil {
			fail("a status is gone")
		}
	}
}

func getStatusWhileSet(readers int) float64 {
	all := uids(pods)
	cache, keys := filled(all), shuffled(all)
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		status, own := &container.PodStatus{}, from(keys, 0, 1)
		for n := 0; !stop.Load(); n++ {
			cache.Set(own.next(), status, nil, at(n))
		}
	})
	nanos := nanosPerOperation(readers, func(thread, operations int) { getAll(cache, from(keys, thread, readers), operations) })
	stop.Store(true)
	writer.Wait()
	return nanos
}

func setStatus(threads int) float64 {
	all := uids(pods)
	cache, keys := filled(all), shuffled(all)
	return nanosPerOperation(threads, func(thread, operations int) {
		status, own := &container.PodStatus{}, from(keys, thread, threads)
		for n := range operations {
			cache.Set(own.next(), status, nil, at(n))
		}
	})
}

// begin starts a goroutine for each wait, one for a pod, and returns when all of them wait.
func begin(cache container.Cache, uids []types.UID, minimum func(n int) time.Time, done *sync.WaitGroup) {
	for n, uid := range uids {
		done.Go(func() { cache.GetNewerThan(uid, minimum(n)) })
	}
	// There is no other way to learn that a wait has begun. The runtime's own goroutines, a handful, are among those that
	// wait or do not, so none but this one is left to run or runs as well; twice in a row, for the numbers are not of one
	// moment.
	for calm := 0; calm < 2; {
		// Seldom, for to ask holds them up.
		time.Sleep(20 * time.Millisecond)
		calm++
		if runnable, running, waiting := goroutines(); runnable > 0 || running > 1 || waiting < uint64(len(uids)) {
			calm = 0
		}
	}
}

// goroutines are the numbers of those that are ready to run, that run, and that wait for something.
func goroutines() (runnable, running, waiting uint64) {
	samples := []metrics.Sample{
		{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/goroutines/running:goroutines"},
		{Name: "/sched/goroutines/waiting:goroutines"},
	}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()
}

func updateTimeNoneDue(waits int) float64 {
	all := uids(waits)
	cache := container.NewCache()
	var done sync.WaitGroup
	begin(cache, all, func(n int) time.Time { return at(later + n) }, &done)
	nanos := nanosPerOperation(1, func(_, operations int) {
		for n := range operations {
			cache.UpdateTime(at(n))
		}
	})
	cache.UpdateTime(at(later + waits))
	done.Wait()
	return nanos
}

// updateTimeAllWoken is the time until all goroutines have run that one update wakes.
func updateTimeAllWoken(waits int) float64 {
	all := uids(waits)
	cache := filled(all)
	var total time.Duration
	rounds := 0
	for ; total < target || rounds < 10; rounds++ {
		var done sync.WaitGroup
		now := at(rounds + 1)
		begin(cache, all, func(int) time.Time { return now }, &done)
		start := time.Now()
		cache.UpdateTime(now)
		done.Wait()
		total += time.Since(start)
	}
	return float64(total.Nanoseconds()) / float64(rounds)
}

func waitMemory(waits int) float64 {
	all := uids(waits)
	var done sync.WaitGroup
	return bytesPer(waits, func() any {
		cache := container.NewCache()
		begin(cache, all, func(n int) time.Time { return at(later + n) }, &done)
		return cache
	})
}
