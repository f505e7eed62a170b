// A client of the Kubernetes API that keeps a copy of pods, nodes, Secrets and ConfigMaps, and prints what it sees.
//
// Each event that the library hands to the program is a line of JSON on standard output. For each line on standard input,
// the program prints a line with all objects that the library's store holds then. It ends with its standard input.
//
// The library decides everything else: what it requests, when it lists again, and which media type it accepts.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"
)

// An object as the program prints it.
type object struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	UID     string `json:"uid"`
	Version string `json:"version"`
}

// An event as the program prints it.
type event struct {
	Type string `json:"type"`
	object
}

// A store of the library, by kind.
type store struct {
	kind string
	list func() ([]client.Object, error)
}

var output = struct {
	sync.Mutex
	*json.Encoder
}{Encoder: json.NewEncoder(os.Stdout)}

func printLine(line any) {
	output.Lock()
	defer output.Unlock()
	if err := output.Encode(line); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "clients:", err)
	os.Exit(1)
}

func describe(kind string, o client.Object) object {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return object{Kind: kind, Name: name, UID: string(o.GetUID()), Version: o.GetResourceVersion()}
}

func handler(kind string) toolscache.ResourceEventHandler {
	tell := func(eventType string, o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		printLine(event{Type: eventType, object: describe(kind, o.(client.Object))})
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { tell("ADDED", o) },
		UpdateFunc: func(_, o any) { tell("MODIFIED", o) },
		DeleteFunc: func(o any) { tell("DELETED", o) },
	}
}

func main() {
	library := flag.String("library", "", "client-go (informers) or controller-runtime (its cache)")
	socket := flag.String("socket", "", "the Unix socket of the server")
	accept := flag.String("accept", "", "the media types that client-go accepts, where not its own")
	flag.Parse()
	dialer := net.Dialer{}
	config := &rest.Config{
		Host: "http://localhost",
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", *socket)
		},
	}
	config.AcceptContentTypes = *accept
	log.SetLogger(logr.Discard())
	ctx := context.Background()
	var stores []store
	var err error
	switch *library {
	case "client-go":
		stores, err = startInformers(ctx, config)
	case "controller-runtime":
		stores, err = startCache(ctx, config)
	default:
		err = fmt.Errorf("no such library: %q", *library)
	}
	if err != nil {
		fail(err)
	}
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		held := []object{}
		for _, store := range stores {
			objects, err := store.list()
			if err != nil {
				fail(err)
			}
			for _, o := range objects {
				held = append(held, describe(store.kind, o))
			}
		}
		printLine(map[string]any{"held": held})
	}
}

func startInformers(ctx context.Context, config *rest.Config) ([]store, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	core := factory.Core().V1()
	stores := []store{
		{"Pod", func() ([]client.Object, error) { return objects(core.Pods().Lister().List(labels.Everything())) }},
		{"Node", func() ([]client.Object, error) { return objects(core.Nodes().Lister().List(labels.Everything())) }},
		{"Secret", func() ([]client.Object, error) { return objects(core.Secrets().Lister().List(labels.Everything())) }},
		{"ConfigMap", func() ([]client.Object, error) {
			return objects(core.ConfigMaps().Lister().List(labels.Everything()))
		}},
	}
	for kind, informer := range map[string]toolscache.SharedIndexInformer{
		"Pod":       core.Pods().Informer(),
		"Node":      core.Nodes().Informer(),
		"Secret":    core.Secrets().Informer(),
		"ConfigMap": core.ConfigMaps().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler(kind)); err != nil {
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	return stores, nil
}

func startCache(ctx context.Context, config *rest.Config) ([]store, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cache, err := ctrlcache.New(config, ctrlcache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	stores := []store{
		{"Pod", func() ([]client.Object, error) {
			var list corev1.PodList
			err := cache.List(ctx, &list)
			return objects(pointers(list.Items), err)
		}},
		{"Node", func() ([]client.Object, error) {
			var list corev1.NodeList
			err := cache.List(ctx, &list)
			return objects(pointers(list.Items), err)
		}},
		{"Secret", func() ([]client.Object, error) {
			var list corev1.SecretList
			err := cache.List(ctx, &list)
			return objects(pointers(list.Items), err)
		}},
		{"ConfigMap", func() ([]client.Object, error) {
			var list corev1.ConfigMapList
			err := cache.List(ctx, &list)
			return objects(pointers(list.Items), err)
		}},
	}
	go func() {
		fail(fmt.Errorf("the cache ended: %w", cache.Start(ctx)))
	}()
	for kind, example := range map[string]client.Object{
		"Pod":       &corev1.Pod{},
		"Node":      &corev1.Node{},
		"Secret":    &corev1.Secret{},
		"ConfigMap": &corev1.ConfigMap{},
	} {
		informer, err := cache.GetInformer(ctx, example)
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(handler(kind)); err != nil {
			return nil, err
		}
	}
	return stores, nil
}

func objects[T client.Object](list []T, err error) ([]client.Object, error) {
	all := make([]client.Object, 0, len(list))
	for _, o := range list {
		all = append(all, o)
	}
	return all, err
}

func pointers[T any](list []T) []*T {
	all := make([]*T, 0, len(list))
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}
