package oracle

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/synctest"
)

var mode = flag.String("answer", "", "answer what stands on standard input: traces, values or references")

// The result lines go where standard output was when the program started.
var results io.Writer = os.Stdout

func TestMain(m *testing.M) {
	flag.Parse()
	if *mode != "" {
		// The test framework's own words must not stand among the results.
		os.Stdout = os.Stderr
		only := map[string]string{"test.run": "^TestAnswer$", "test.timeout": "0"}
		for name, value := range only {
			if err := flag.Set(name, value); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(2)
			}
		}
	}
	os.Exit(m.Run())
}

// TestAnswer is the oracle itself where the binary is called with -answer; see the package's documentation.
func TestAnswer(t *testing.T) {
	var err error
	switch *mode {
	case "":
		t.Skip("no -answer: only the races are tested")
	case "traces":
		synctest.Test(t, func(*testing.T) { err = answerTraces(os.Stdin, results) })
	case "values":
		err = answerValues(os.Stdin, results)
	case "references":
		err = answerReferences(os.Stdin, results)
	default:
		err = fmt.Errorf("unknown mode %q", *mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
