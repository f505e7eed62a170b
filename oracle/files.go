package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
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
