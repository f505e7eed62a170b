// Command bench measures one operation of the kubelet's own caches, once.
//
//	bench OPERATION NUMBER
//
// NUMBER is what the operation counts: threads, or waits. It prints one line, {"value":N}: nanoseconds for one operation,
// or bytes for one wait or object. `cargo xtask versus` calls it in turn with larder's counterpart in benches/, which does
// the same work: the same keys in the same order, the same pods, as many threads.
//
// Time for one operation is wall time over all threads' operations. Memory is what the garbage collector finds alive, with
// the stacks of goroutines.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// deadline is many times what any operation takes.
const deadline = 5 * time.Minute

// operations has every operation by its name, with the number that it counts.
var operations = map[string]func(number int) float64{
	"pod-status-get":              getStatus,
	"pod-status-get-while-set":    getStatusWhileSet,
	"pod-status-set":              setStatus,
	"update-time-none-due":        updateTimeNoneDue,
	"update-time-all-woken":       updateTimeAllWoken,
	"wait-memory":                 waitMemory,
	"object-get":                  getObject,
	"object-get-hot":              getHotObject,
	"pod-register-unregister":     registerUnregister,
	"pod-register-again":          registerAgain,
	"object-memory-registered":    memoryRegistered,
	"object-memory-fetched":       memoryFetched,
	"object-memory-fetched-empty": memoryFetchedEmpty,
}

func main() {
	if len(os.Args) != 3 {
		fail("usage: bench OPERATION NUMBER")
	}
	operation, known := operations[os.Args[1]]
	if !known {
		fail("there is no operation " + os.Args[1])
	}
	number, err := strconv.Atoi(os.Args[2])
	if err != nil || number < 1 {
		fail("not a number to count with: " + os.Args[2])
	}
	time.AfterFunc(deadline, func() { fail(os.Args[1] + " has not ended after " + deadline.String()) })
	fmt.Printf("{\"value\":%g}\n", operation(number))
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, "bench:", why)
	os.Exit(2)
}
