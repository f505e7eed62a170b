package oracle

import (
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/container"
)

// podStatusTrace replays one trace of kind "pod-status". It lives in a synctest bubble.
type podStatusTrace struct {
	cache container.Cache
	// The waits that are neither answered nor cancelled.
	open map[int64]*wait
}

// wait is one newer-than read. Its goroutine writes answer; it is read only after synctest.Wait.
type wait struct {
	answer result
}

func newPodStatusTrace() *podStatusTrace {
	return &podStatusTrace{cache: container.NewCache(), open: map[int64]*wait{}}
}

func (p *podStatusTrace) step(f fields) (result, error) {
	op, err := need[string](f, "op")
	if err != nil {
		return nil, err
	}
	switch op {
	case "get":
		uid, err := need[types.UID](f, "uid")
		if err != nil {
			return nil, err
		}
		return statusResult(p.cache.Get(uid)), nil
	case "set":
		return p.set(f)
	case "observed":
		uid, err1 := need[types.UID](f, "uid")
		at, err2 := needTime(f, "t")
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		p.cache.SetObservedTime(uid, at)
		return p.withWoken(result{}), nil
	case "delete":
		uid, err := need[types.UID](f, "uid")
		if err != nil {
			return nil, err
		}
		p.cache.Delete(uid)
		return p.withWoken(result{}), nil
	case "update_time":
		at, err := needTime(f, "t")
		if err != nil {
			return nil, err
		}
		p.cache.UpdateTime(at)
		return p.withWoken(result{}), nil
	case "newer":
		return p.newer(f)
	case "cancel":
		id, err := need[int64](f, "id")
		if err != nil {
			return nil, err
		}
		// The original cannot take a wait back. Its goroutine stays until it is answered, and nobody looks at the answer.
		delete(p.open, id)
		return result{}, nil
	default:
		return nil, fmt.Errorf("unknown operation %q", op)
	}
}

func (p *podStatusTrace) set(f fields) (result, error) {
	uid, err1 := need[types.UID](f, "uid")
	text, err2 := needNullable[string](f, "status")
	failure, err3 := optional[string](f, "error")
	at, err4 := needTime(f, "t")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	var status *container.PodStatus
	if text != nil {
		if *text == "" {
			return nil, errors.New(`field "status" is empty`)
		}
		status = &container.PodStatus{ID: uid, Name: *text}
	}
	var cached error
	if failure != nil {
		if *failure == "" {
			return nil, errors.New(`field "error" is empty`)
		}
		cached = errors.New(*failure)
	}
	return p.withWoken(result{"updated": p.cache.Set(uid, status, cached, at)}), nil
}

func (p *podStatusTrace) newer(f fields) (result, error) {
	id, err1 := need[int64](f, "id")
	uid, err2 := need[types.UID](f, "uid")
	minimum, err3 := needTime(f, "min")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if _, taken := p.open[id]; taken {
		return nil, fmt.Errorf("field %q: an open wait has the id %d", "id", id)
	}
	w := &wait{}
	go func() { w.answer = statusResult(p.cache.GetNewerThan(uid, minimum)) }()
	synctest.Wait()
	if w.answer != nil {
		return w.answer, nil
	}
	p.open[id] = w
	return result{"pending": true}, nil
}

// withWoken adds the waits that the operation just done has answered.
func (p *podStatusTrace) withWoken(r result) result {
	if len(p.open) == 0 {
		return r
	}
	synctest.Wait()
	var woken []result
	for _, id := range p.openIDs() {
		if answer := p.open[id].answer; answer != nil {
			delete(p.open, id)
			answer["id"] = id
			woken = append(woken, answer)
		}
	}
	if woken != nil {
		r["woken"] = woken
	}
	return r
}

func (p *podStatusTrace) openIDs() []int64 {
	ids := make([]int64, 0, len(p.open))
	for id := range p.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (p *podStatusTrace) end() result {
	return result{"end": true, "pending": p.openIDs()}
}

// release answers every wait that is left, those that were cancelled too, so that no goroutine outlives the trace.
func (p *podStatusTrace) release() {
	p.cache.UpdateTime(time.Unix(1<<40, 0))
	synctest.Wait()
}

func needTime(f fields, name string) (time.Time, error) {
	nanoseconds, err := need[int64](f, name)
	return time.Unix(0, nanoseconds), err
}

func statusResult(status *container.PodStatus, err error) result {
	r := result{}
	switch {
	case status == nil:
		r["status"] = nil
	case status.Name == "":
		r["empty"] = true
	default:
		r["status"] = status.Name
	}
	if err != nil {
		r["error"] = err.Error()
	}
	return r
}
