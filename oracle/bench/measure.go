package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// target is how long the operations of one measurement take at least.
const target = 200 * time.Millisecond

// nanosPerOperation calls run on so many threads, with more and more operations until they take long enough.
func nanosPerOperation(threads int, run func(thread, operations int)) float64 {
	operations := 1
	for {
		elapsed := together(threads, operations, run)
		if elapsed >= target {
			return float64(elapsed.Nanoseconds()) / float64(operations*threads)
		}
		factor := float64(target) * 1.2 / float64(max(elapsed, time.Microsecond))
		operations = int(float64(operations) * min(max(factor, 1.5), 100))
	}
}

// together runs on all threads at once: the time from the first one's start to the last one's end.
func together(threads, operations int, run func(thread, operations int)) time.Duration {
	started, ended := make([]time.Time, threads), make([]time.Time, threads)
	var ready, done sync.WaitGroup
	ready.Add(threads)
	for thread := range threads {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			started[thread] = time.Now()
			run(thread, operations)
			ended[thread] = time.Now()
		})
	}
	done.Wait()
	first, last := started[0], ended[0]
	for thread := range threads {
		if started[thread].Before(first) {
			first = started[thread]
		}
		if ended[thread].After(last) {
			last = ended[thread]
		}
	}
	return last.Sub(first)
}

// bytesPer is what build leaves alive, for each of so many.
func bytesPer(count int, build func() any) float64 {
	before := alive()
	built := build()
	after := alive()
	runtime.KeepAlive(built)
	return (float64(after) - float64(before)) / float64(count)
}

// alive is what the heap and the stacks hold.
func alive() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}

// sequence makes numbers without a pattern, the same ones each time and on both sides.
type sequence uint64

func (s *sequence) next() uint64 {
	*s = *s*6364136223846793005 + 1442695040888963407
	return uint64(*s)
}

// uids are UUIDs as the API server makes them.
func uids(count int) []types.UID {
	s := sequence(1)
	all := make([]types.UID, count)
	for n := range all {
		a, b := s.next(), s.next()
		all[n] = types.UID(fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff))
	}
	return all
}

// shuffled is a copy in another order.
func shuffled[T any](in []T) []T {
	s := sequence(2)
	out := append([]T(nil), in...)
	for n := len(out) - 1; n > 0; n-- {
		other := int(s.next() >> 33 % uint64(n+1))
		out[n], out[other] = out[other], out[n]
	}
	return out
}

// cycle goes around a slice from the thread's own beginning.
type cycle[T any] struct {
	all []T
	at  int
}

func from[T any](all []T, thread, threads int) cycle[T] {
	return cycle[T]{all, len(all) * thread / threads}
}

func (c *cycle[T]) next() T {
	value := c.all[c.at]
	c.at++
	if c.at == len(c.all) {
		c.at = 0
	}
	return value
}
