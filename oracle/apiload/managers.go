package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	"k8s.io/kubernetes/pkg/kubelet/secret"
	"k8s.io/kubernetes/pkg/kubelet/util/manager"
)

// managers are the two that a kubelet has.
type managers struct {
	secrets    secret.Manager
	configMaps configmap.Manager
}

func newManagers(ctx context.Context, client kubernetes.Interface, strategy string, syncPeriod time.Duration, node func(context.Context) (*v1.Node, error)) (*managers, error) {
	switch strategy {
	case "get":
		return &managers{secret.NewSimpleSecretManager(client), configmap.NewSimpleConfigMapManager(client)}, nil
	case "cache":
		ttl := manager.GetObjectTTLFromNodeFunc(ctx, node)
		return &managers{secret.NewCachingSecretManager(client, ttl), configmap.NewCachingConfigMapManager(client, ttl)}, nil
	case "watch":
		return &managers{secret.NewWatchingSecretManager(client, syncPeriod), configmap.NewWatchingConfigMapManager(client, syncPeriod)}, nil
	default:
		return nil, fmt.Errorf("there is no strategy %q; the kubelet has get, cache and watch", strategy)
	}
}

func (m *managers) register(pod *v1.Pod) {
	m.secrets.RegisterPod(pod)
	m.configMaps.RegisterPod(pod)
}

func (m *managers) unregister(pod *v1.Pod) {
	m.secrets.UnregisterPod(pod)
	m.configMaps.UnregisterPod(pod)
}
