// Command apiload is the kubelet's share of `cargo xtask api-load`: its own Secret and ConfigMap managers, as the kubelet
// makes them for one of its strategies, over a client of the API server that is set up as the kubelet's is.
//
//	apiload -kubeconfig FILE -node-name NAME -strategy get|cache|watch -sync-period 1m -socket PATH
//
// It follows the node's pods and registers them with the managers as they come and go. On the Unix socket it answers as
// larder does, so that one reader reads both:
//
//	GET /readyz                                              200 once the node and its pods are known
//	GET /api/v1/namespaces/NAMESPACE/pods/NAME               200 once the pod is registered
//	GET /api/v1/namespaces/NAMESPACE/secrets|configmaps/NAME what the manager gives, as JSON; 404, or 500 with its error
//
// It reads no volumes and runs no pods: who asks when is the reader's choice. It ends at SIGTERM.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the node's kubeconfig")
	nodeName := flag.String("node-name", "", "the node's name")
	strategy := flag.String("strategy", "watch", "the kubelet's word for it: get, cache or watch")
	syncPeriod := flag.Duration("sync-period", time.Minute, "the kubelet's syncFrequency")
	socket := flag.String("socket", "", "where to answer")
	flag.Parse()
	if err := run(*kubeconfig, *nodeName, *strategy, *syncPeriod, *socket); err != nil {
		fmt.Fprintln(os.Stderr, "apiload:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, nodeName, strategy string, syncPeriod time.Duration, socket string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := newClient(kubeconfig)
	if err != nil {
		return err
	}
	node := followNode(ctx, client, nodeName)
	managers, err := newManagers(ctx, client, strategy, syncPeriod, node.get)
	if err != nil {
		return err
	}
	pods := followPods(ctx, client, nodeName, managers)
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newHandler(managers, pods, func() bool { return node.synced() && pods.synced() })}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// newClient is set up as the kubelet's: protobuf, and the limits that its configuration has where it says nothing.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	rest.AddUserAgent(config, "apiload")
	return kubernetes.NewForConfig(config)
}
