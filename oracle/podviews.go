package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/status"
)

// The kubelet does not export these. linkname.s lets them have no body here.
//
//go:linkname convertStatusToAPIStatus k8s.io/kubernetes/pkg/kubelet.(*Kubelet).convertStatusToAPIStatus
func convertStatusToAPIStatus(*kubelet.Kubelet, context.Context, *v1.Pod, *container.PodStatus, v1.PodStatus) *v1.PodStatus

//go:linkname getPhase k8s.io/kubernetes/pkg/kubelet.getPhase
func getPhase(klog.Logger, *v1.Pod, []v1.ContainerStatus, bool, bool) v1.PodPhase

// podView is a pod as the API server has it, and what the runtime says of its containers, newest first.
type podView struct {
	Pod        *v1.Pod            `json:"pod"`
	Containers []runtimeContainer `json:"containers"`
	// Active is the sandbox that is ready.
	Active string `json:"active"`
}

type runtimeContainer struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Sandbox      string `json:"sandbox"`
	State        string `json:"state"`
	CreatedAt    int64  `json:"createdAt"`
	StartedAt    int64  `json:"startedAt"`
	FinishedAt   int64  `json:"finishedAt"`
	ExitCode     int    `json:"exitCode"`
	Reason       string `json:"reason"`
	Message      string `json:"message"`
	RestartCount int    `json:"restartCount"`
	Image        string `json:"image"`
	ImageRef     string `json:"imageRef"`
}

// answerPodViews answers each pod with the status that the kubelet would give it.
func answerPodViews(input io.Reader, output io.Writer) error {
	p := newPrinter(output)
	kl := &kubelet.Kubelet{}
	// It is not exported either, and nothing sets it but the kubelet's start.
	field := reflect.ValueOf(kl).Elem().FieldByName("reasonCache")
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(kubelet.NewReasonCache()))
	err := lines(input, func(line []byte, _ bool) error {
		view, err := need[podView](fields{"view": line}, "view")
		if err != nil {
			return err
		}
		if view.Pod == nil {
			return errors.New("there is no pod")
		}
		return p.encoder.Encode(podStatusOf(kl, view))
	})
	return errors.Join(err, p.out.Flush())
}

// podStatusOf does what generateAPIPodStatus does, without the parts of it that ask for more than the pod and the runtime.
func podStatusOf(kl *kubelet.Kubelet, view podView) *v1.PodStatus {
	ctx := context.Background()
	pod, old := view.Pod, view.Pod.Status
	seen := &container.PodStatus{ID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}
	for _, c := range view.Containers {
		status := c.status()
		seen.ContainerStatuses = append(seen.ContainerStatuses, status)
		if c.Sandbox == view.Active {
			seen.ActiveContainerStatuses = append(seen.ActiveContainerStatuses, status)
		}
	}
	// With a phase of Running, it would ask the node's cgroups for the pod's resources.
	unphased := pod.DeepCopy()
	unphased.Status = v1.PodStatus{}
	s := convertStatusToAPIStatus(kl, ctx, unphased, seen, *old.DeepCopy())
	// The kubelet takes the results of probes into account after the phase, which follows with the next sync.
	probed(pod, &old, s)
	all := append(append([]v1.ContainerStatus{}, s.ContainerStatuses...), s.InitContainerStatuses...)
	initialized := container.HasAnyActiveRegularContainerStarted(&pod.Spec, seen)
	s.Phase = getPhase(klog.Background(), pod, all, pod.DeletionTimestamp != nil, initialized)
	if old.Phase == v1.PodFailed || old.Phase == v1.PodSucceeded {
		s.Phase = old.Phase
	}
	if s.Phase == old.Phase {
		s.Reason, s.Message = old.Reason, old.Message
	}
	statuses := append(append([]v1.ContainerStatus{}, s.InitContainerStatuses...), s.ContainerStatuses...)
	s.Conditions = []v1.PodCondition{
		status.GeneratePodInitializedCondition(pod, &old, statuses, s.Phase),
		status.GeneratePodReadyCondition(pod, &old, old.Conditions, statuses, s.Phase),
		status.GenerateContainersReadyCondition(pod, &old, statuses, s.Phase),
	}
	return s
}

func (c runtimeContainer) status() *container.Status {
	status := &container.Status{
		ID:           container.ContainerID{Type: "containerd", ID: c.ID},
		Name:         c.Name,
		CreatedAt:    time.Unix(0, c.CreatedAt),
		Image:        c.Image,
		ImageRef:     c.ImageRef,
		RestartCount: c.RestartCount,
	}
	switch c.State {
	case "created":
		status.State = container.ContainerStateCreated
	case "running":
		status.State, status.StartedAt = container.ContainerStateRunning, time.Unix(0, c.StartedAt)
	case "exited":
		status.State, status.StartedAt, status.FinishedAt = container.ContainerStateExited, time.Unix(0, c.StartedAt), time.Unix(0, c.FinishedAt)
		status.ExitCode, status.Reason, status.Message = c.ExitCode, c.Reason, c.Message
	case "unknown":
		status.State = container.ContainerStateUnknown
	default:
		panic(fmt.Sprintf("there is no state %q", c.State))
	}
	return status
}

// probed sets what the prober manager sets, whose results it has for the containers that the API status has as running.
func probed(pod *v1.Pod, old, s *v1.PodStatus) {
	result := func(container *v1.Container, status v1.ContainerStatus, old []v1.ContainerStatus) (started, ready bool) {
		if status.State.Running == nil || container == nil {
			return false, false
		}
		if before, ok := podutil.GetContainerStatus(old, status.Name); ok && before.ContainerID == status.ContainerID && before.State.Running != nil {
			return before.Started != nil && *before.Started, before.Ready
		}
		started = container.StartupProbe == nil
		return started, started && container.ReadinessProbe == nil
	}
	find := func(containers []v1.Container, name string) *v1.Container {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i]
			}
		}
		return nil
	}
	for i := range s.ContainerStatuses {
		c := &s.ContainerStatuses[i]
		started, ready := result(find(pod.Spec.Containers, c.Name), *c, old.ContainerStatuses)
		c.Started, c.Ready = &started, ready
	}
	for i := range s.InitContainerStatuses {
		c := &s.InitContainerStatuses[i]
		container := find(pod.Spec.InitContainers, c.Name)
		started, ready := result(container, *c, old.InitContainerStatuses)
		if container == nil || !podutil.IsRestartableInitContainer(container) {
			ready = c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		}
		c.Started, c.Ready = &started, ready
	}
}
