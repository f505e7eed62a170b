package main

import (
	"encoding/json"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func newHandler(managers *managers, pods *registeredPods, ready func() bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "the node and its pods are not known yet", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}", func(w http.ResponseWriter, r *http.Request) {
		pod := pods.get(r.PathValue("namespace"), r.PathValue("name"))
		if pod == nil {
			http.Error(w, "not registered", http.StatusNotFound)
			return
		}
		answer(w, pod, nil)
	})
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/secrets/{name}", func(w http.ResponseWriter, r *http.Request) {
		object, err := managers.secrets.GetSecret(r.PathValue("namespace"), r.PathValue("name"))
		answer(w, object, err)
	})
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/configmaps/{name}", func(w http.ResponseWriter, r *http.Request) {
		object, err := managers.configMaps.GetConfigMap(r.PathValue("namespace"), r.PathValue("name"))
		answer(w, object, err)
	})
	return mux
}

func answer(w http.ResponseWriter, object any, err error) {
	switch {
	case apierrors.IsNotFound(err):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		// The reader sees a body that is cut short.
		_ = json.NewEncoder(w).Encode(object)
	}
}
