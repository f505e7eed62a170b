package oracle

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
)

// answerFiles answers each line, a string of JSON, with what it means or {"refused":"why"}.
func answerFiles(meaning func(string) (any, error), input io.Reader, output io.Writer) error {
	p := newPrinter(output)
	err := lines(input, func(line []byte, more bool) error {
		var text string
		if err := json.Unmarshal(line, &text); err != nil {
			return err
		}
		answer, err := meaning(text)
		if err != nil {
			answer = result{"refused": err.Error()}
		}
		if err := p.encoder.Encode(answer); err != nil || more {
			return err
		}
		return p.out.Flush()
	})
	return errors.Join(err, p.out.Flush())
}

// kubeconfig is what clientcmd makes of a file, and client-go of that.
func kubeconfig(path string) (any, error) {
	overrides := &clientcmd.ConfigOverrides{}
	load := func() clientcmd.ClientConfig {
		rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
		return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	}
	config, err := load().ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := load().Namespace()
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	if server.Scheme == "http" && strings.Contains(config.Host, "://") {
		// Without TLS client-go leaves everything else away; what it would be with TLS is compared.
		overrides.ClusterInfo.Server = "https://" + server.Host
		raw, err := load().RawConfig()
		if err != nil {
			return nil, err
		}
		if context := raw.Contexts[raw.CurrentContext]; context != nil && raw.Clusters[context.Cluster] != nil {
			overrides.ClusterInfo.TLSServerName = raw.Clusters[context.Cluster].TLSServerName
		}
		if config, err = load().ClientConfig(); err != nil {
			return nil, err
		}
	}
	if err := certificates(config.TLSClientConfig); err != nil {
		return result{"refused": err.Error(), "certificates": true}, nil
	}
	if _, err := rest.TransportFor(config); err != nil {
		return nil, err
	}
	answer := result{
		"server":      server.String(),
		"server_name": config.ServerName,
		"insecure":    config.Insecure,
		"authorities": blob(config.CAData, config.CAFile),
		"certificate": blob(config.CertData, config.CertFile),
		"key":         blob(config.KeyData, config.KeyFile),
		"token_file":  config.BearerTokenFile,
		"username":    config.Username,
		"password":    config.Password,
		"as":          config.Impersonate.UserName,
		"as_uid":      config.Impersonate.UID,
		"as_groups":   config.Impersonate.Groups,
		"as_extra":    config.Impersonate.Extra,
		"namespace":   namespace,
		"compression": !config.DisableCompression,
	}
	if config.BearerTokenFile == "" {
		answer["token"] = config.BearerToken
	}
	if config.Proxy != nil {
		proxy, err := config.Proxy(nil)
		if err != nil {
			return nil, err
		}
		answer["proxy"] = proxy.String()
	}
	if exec := config.ExecProvider; exec != nil {
		answer["exec"] = result{
			"command": exec.Command, "args": exec.Args, "env": exec.Env, "version": exec.APIVersion,
			"hint": exec.InstallHint, "info": exec.ProvideClusterInfo, "mode": exec.InteractiveMode,
			"config": exec.Config,
		}
	}
	return answer, nil
}

// certificates reads authorities, certificate and key as the first handshake would.
func certificates(config rest.TLSClientConfig) error {
	read := rest.Config{TLSClientConfig: config}
	if err := rest.LoadTLSFiles(&read); err != nil {
		return err
	}
	if len(read.CAData) > 0 && !x509.NewCertPool().AppendCertsFromPEM(read.CAData) {
		return errors.New("authorities without a certificate")
	}
	if len(read.CertData) == 0 {
		return nil
	}
	_, err := tls.X509KeyPair(read.CertData, read.KeyData)
	return err
}

func blob(data []byte, file string) any {
	switch {
	case len(data) > 0:
		return data
	case file != "":
		return result{"file": file}
	default:
		return nil
	}
}

// manifest is what the kubelet's decoder makes of a static pod's file, and of a Secret or a ConfigMap. Of the kubelet's checks
// of a pod it makes the ones that larder makes.
func manifest(text string) (any, error) {
	decoded, err := utilyaml.ToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	internal, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), decoded)
	if err != nil {
		return nil, err
	}
	object, err := runtime.Decode(legacyscheme.Codecs.UniversalDeserializer(), decoded)
	if err != nil {
		return nil, err
	}
	var name, namespace string
	switch object := object.(type) {
	case *v1.Pod:
		if len(object.Spec.Containers) == 0 {
			return nil, errors.New("a pod without containers")
		}
		name, namespace = object.Name, object.Namespace
	case *v1.Secret:
		// The internal one has stringData among data.
		secret := internal.(*core.Secret)
		object.Data, object.StringData, object.Type = secret.Data, nil, v1.SecretType(secret.Type)
		name, namespace = object.Name, object.Namespace
	case *v1.ConfigMap:
		name, namespace = object.Name, object.Namespace
	default:
		return nil, fmt.Errorf("a %T", object)
	}
	problems := apivalidation.NameIsDNSSubdomain(name, false)
	if namespace != "" {
		problems = append(problems, apivalidation.NameIsDNSLabel(namespace, false)...)
	}
	if name == "" || len(problems) > 0 {
		return nil, errors.New("no name: " + strings.Join(problems, ", "))
	}
	// The decoder reads kind and apiVersion in any case, the object only as they are written.
	kind, _, err := legacyscheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(kind[0])
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(object); err != nil {
		return nil, err
	}
	return json.RawMessage(out.Bytes()), nil
}
