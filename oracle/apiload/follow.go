package main

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// followedNode is the node that the API server has, for its annotation with the TTL.
type followedNode struct {
	name   string
	store  cache.Store
	synced func() bool
}

func followNode(ctx context.Context, client kubernetes.Interface, name string) *followedNode {
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "nodes", "", fields.OneTermEqualSelector("metadata.name", name))
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(source, client),
		ObjectType:    &v1.Node{},
		Handler:       cache.ResourceEventHandlerFuncs{},
	})
	go controller.RunWithContext(ctx)
	return &followedNode{name, store, controller.HasSynced}
}

func (n *followedNode) get(context.Context) (*v1.Node, error) {
	object, known, err := n.store.GetByKey(n.name)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("the node %q is not known", n.name)
	}
	return object.(*v1.Node), nil
}

// registeredPods are the node's pods that the managers know of.
type registeredPods struct {
	synced func() bool
	lock   sync.Mutex
	known  map[types.NamespacedName]*v1.Pod
}

func followPods(ctx context.Context, client kubernetes.Interface, nodeName string, to *managers) *registeredPods {
	pods := &registeredPods{known: map[types.NamespacedName]*v1.Pod{}}
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", "", fields.OneTermEqualSelector("spec.nodeName", nodeName))
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(source, client),
		ObjectType:    &v1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { pods.set(object.(*v1.Pod), to) },
			UpdateFunc: func(_, object any) { pods.set(object.(*v1.Pod), to) },
			DeleteFunc: func(object any) {
				if last, missed := object.(cache.DeletedFinalStateUnknown); missed {
					object = last.Obj
				}
				pods.remove(object.(*v1.Pod), to)
			},
		},
	})
	pods.synced = controller.HasSynced
	go controller.RunWithContext(ctx)
	return pods
}

func named(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// set is what the kubelet does as it syncs a pod: register it as long as it may run, unregister it once it has ended.
func (p *registeredPods) set(pod *v1.Pod, to *managers) {
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		p.remove(pod, to)
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if before := p.known[named(pod)]; before != nil && before.UID != pod.UID {
		to.unregister(before)
	}
	to.register(pod)
	p.known[named(pod)] = pod
}

func (p *registeredPods) remove(pod *v1.Pod, to *managers) {
	p.lock.Lock()
	defer p.lock.Unlock()
	to.unregister(pod)
	if known := p.known[named(pod)]; known != nil && known.UID == pod.UID {
		delete(p.known, named(pod))
	}
}

func (p *registeredPods) get(namespace, name string) *v1.Pod {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.known[types.NamespacedName{Namespace: namespace, Name: name}]
}
