package oracle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// result is one line of output before it is printed; encoding/json sorts its keys.
type result map[string]any

// replay is a trace under way.
type replay interface {
	// step runs one operation; an error says what is wrong with its line.
	step(fields) (result, error)
	// end is the closing line.
	end() result
	// release lets go of everything that the trace still holds.
	release()
}

// lines calls each with every line of the input, without its end, and whether more of the input is there already; what
// it holds is one line, whatever the input's size.
func lines(input io.Reader, each func(line []byte, more bool) error) error {
	reader := bufio.NewReaderSize(input, 1<<16)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			if err := each(bytes.TrimSuffix(line, []byte("\n")), reader.Buffered() > 0); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

type printer struct {
	out     *bufio.Writer
	encoder *json.Encoder
}

func newPrinter(output io.Writer) printer {
	out := bufio.NewWriterSize(output, 1<<16)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return printer{out, encoder}
}

// answerTraces replays one trace after another. It must run in a synctest bubble.
func answerTraces(input io.Reader, output io.Writer) error {
	p := newPrinter(output)
	var (
		current replay
		number  int
		skip    bool
	)
	finish := func() error {
		if current == nil {
			return nil
		}
		defer func() { current = nil }()
		defer current.release()
		if skip {
			return nil
		}
		return p.encoder.Encode(current.end())
	}
	err := lines(input, func(line []byte, more bool) error {
		if len(line) == 0 {
			if err := finish(); err != nil || more {
				return err
			}
			return p.out.Flush()
		}
		f, bad := parseFields(line)
		if bad == nil && f["larder_trace"] != nil && f["op"] == nil {
			if err := finish(); err != nil {
				return err
			}
			number, skip = 1, false
			current, bad = begin(f)
			if bad == nil {
				return nil
			}
		} else {
			number++
		}
		if skip {
			return nil
		}
		var r result
		if bad == nil && current == nil {
			bad = errors.New("an operation before any header")
		}
		if bad == nil {
			r, bad = current.step(f)
		}
		if bad != nil {
			skip = true
			r = result{"bad": bad.Error(), "line": number}
		}
		return p.encoder.Encode(r)
	})
	return errors.Join(err, finish(), p.out.Flush())
}

func begin(header fields) (replay, error) {
	version, err := need[int64](header, "larder_trace")
	if err != nil {
		return nil, err
	}
	if version != 1 {
		return nil, fmt.Errorf("trace version %d, not 1", version)
	}
	kind, err := need[string](header, "kind")
	if err != nil {
		return nil, err
	}
	switch kind {
	case "pod-status":
		evented, err := optional[bool](header, "evented")
		if err != nil {
			return nil, err
		}
		if err := setEvented(evented != nil && *evented); err != nil {
			return nil, err
		}
		return newPodStatusTrace(), nil
	case "objects":
		text, err := need[string](header, "default_ttl")
		if err != nil {
			return nil, err
		}
		ttl, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", "default_ttl", err)
		}
		return newObjectsTrace(ttl), nil
	default:
		return nil, fmt.Errorf("unknown kind %q", kind)
	}
}

// setEvented turns the ordering of Set by time on or off. The gate is the process's: one trace runs at a time.
func setEvented(evented bool) error {
	return utilfeature.DefaultMutableFeatureGate.Set("EventedPLEG=" + strconv.FormatBool(evented))
}

// answerValues reads texts as the packages of Go do that the original uses.
func answerValues(input io.Reader, output io.Writer) error {
	p := newPrinter(output)
	err := lines(input, func(line []byte, _ bool) error {
		f, err := parseFields(line)
		if err != nil {
			return err
		}
		parse, err := need[string](f, "parse")
		if err != nil {
			return err
		}
		text, err := need[string](f, "text")
		if err != nil {
			return err
		}
		r := result{"error": true}
		switch parse {
		case "duration":
			if value, err := time.ParseDuration(text); err == nil {
				r = result{"value": strconv.FormatInt(int64(value), 10)}
			}
		case "seconds":
			if value, err := strconv.Atoi(text); err == nil {
				r = result{"value": strconv.FormatInt(int64(time.Duration(value)*time.Second), 10)}
			}
		case "resource_version":
			// The original goes on with the number that comes with the error.
			value, _ := strconv.ParseUint(text, 10, 64)
			r = result{"value": strconv.FormatUint(value, 10)}
		default:
			return fmt.Errorf("cannot parse a %q", parse)
		}
		return p.encoder.Encode(r)
	})
	return errors.Join(err, p.out.Flush())
}

// answerReferences prints the names that the kubelet's visitors find in each pod, ascending and each once.
func answerReferences(input io.Reader, output io.Writer) error {
	p := newPrinter(output)
	err := lines(input, func(line []byte, _ bool) error {
		var pod v1.Pod
		if err := json.Unmarshal(line, &pod); err != nil {
			return fmt.Errorf("not a pod: %w", err)
		}
		secrets, configMaps := sets.New[string](), sets.New[string]()
		podutil.VisitPodSecretNames(&pod, func(name string) bool {
			secrets.Insert(name)
			return true
		})
		podutil.VisitPodConfigmapNames(&pod, func(name string) bool {
			configMaps.Insert(name)
			return true
		})
		return p.encoder.Encode(result{"secrets": sorted(secrets), "config_maps": sorted(configMaps)})
	})
	return errors.Join(err, p.out.Flush())
}

func sorted(names sets.Set[string]) []string {
	list := names.UnsortedList()
	slices.Sort(list)
	return list
}
