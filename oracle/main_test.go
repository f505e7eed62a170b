package oracle

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
)

var mode = flag.String("answer", "", "answer what stands on standard input: traces, values, references, kubeconfigs, manifests, certificates, tables, pods, schema or protobuf")

func TestMain(m *testing.M) {
	flag.Parse()
	if *mode != "" {
		for name, value := range map[string]string{"test.run": "^TestAnswer$", "test.timeout": "0"} {
			if err := flag.Set(name, value); err != nil {
				fail(err)
			}
		}
	}
	os.Exit(m.Run())
}

// TestAnswer is the oracle itself where the binary is called with -answer; see the package's documentation. Called without,
// it answers the example of the format.
func TestAnswer(t *testing.T) {
	if *mode == "" {
		answerExample(t)
		return
	}
	results := os.Stdout
	// The test framework's own words must not stand among the results.
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		fail(err)
	}
	os.Stdout = null
	if err := answer(t, *mode, os.Stdin, results); err != nil {
		fail(err)
	}
}

func answer(t *testing.T, mode string, input io.Reader, output io.Writer) (err error) {
	switch mode {
	case "traces":
		// Every trace in one bubble: none leaves a goroutine behind.
		synctest.Test(t, func(*testing.T) { err = answerTraces(input, output) })
	case "values":
		err = answerValues(input, output)
	case "references":
		err = answerReferences(input, output)
	case "kubeconfigs":
		err = answerFiles(kubeconfig, input, output)
	case "certificates":
		err = answerFiles(certificate, input, output)
	case "manifests":
		err = answerFiles(manifest, input, output)
	case "tables":
		// In a bubble, for its clock stands still.
		synctest.Test(t, func(*testing.T) { err = answerTables(input, output) })
	case "pods":
		err = answerPodViews(input, output)
	case "schema":
		err = writeSchema(output)
	case "protobuf":
		err = answerProtobuf(input, output)
	default:
		err = fmt.Errorf("there is no mode %q", mode)
	}
	return err
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "oracle:", err)
	os.Exit(2)
}

func answerExample(t *testing.T) {
	const (
		traces = `{"larder_trace":1,"kind":"objects","default_ttl":"60s"}
{"op":"server_put","ns":"a","name":"x","rv":"5","data":"v1"}
{"op":"get","ns":"a","name":"x"}
{"op":"register","ns":"a","name":"p","uid":"u1","refs":["x"]}
{"op":"get","ns":"a","name":"x"}
{"op":"server_fail","ns":"a","name":"x","code":503}
{"op":"advance","by":"60s"}
{"op":"get","ns":"a","name":"x"}

{"larder_trace":1,"kind":"pod-status","evented":true}
{"op":"set","uid":"u","status":"s","t":5}
{"op":"newer","id":2,"uid":"u","min":5}
{"op":"newer","id":1,"uid":"u","min":7}
{"op":"set","uid":"u","status":"older","t":4}
{"op":"set","uid":"u","status":null,"error":"e","t":7}
{"op":"newer","id":1,"uid":"v","min":9}
{"op":"cancel","id":1}
{"op":"newer","id":1,"uid":"w","min":9}
{"larder_trace":1,"kind":"pod-status"}
{"op":"observed","uid":"u"}
{"op":"get","uid":"u"}
`
		expected = `{}
{"error":"not_registered","fetches":[]}
{}
{"data":"v1","fetches":[{"from_cache":false}],"rv":"5"}
{}
{}
{"data":"v1","fetches":[{"from_cache":true}],"rv":"5"}
{"end":true}
{"updated":true}
{"pending":true}
{"pending":true}
{"updated":false}
{"updated":true,"woken":[{"error":"e","id":1,"status":null},{"error":"e","id":2,"status":null}]}
{"pending":true}
{}
{"pending":true}
{"end":true,"pending":[1]}
{"bad":"field \"t\" is missing","line":2}
`
	)
	var got strings.Builder
	if err := answer(t, "traces", strings.NewReader(traces), &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != expected {
		t.Errorf("got\n%s\nnot\n%s", got.String(), expected)
	}
}
