package oracle

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand"
	"reflect"
	"time"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	serializerprotobuf "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// The API server's serializers. Its JSON has no spaces.
var (
	asJSON     = serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, messageScheme, messageScheme, serializerjson.SerializerOptions{})
	asProtobuf = serializerprotobuf.NewSerializer(messageScheme, messageScheme)
)

// messageScheme has the kinds of client-go, and metadata alone.
var messageScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		panic(err)
	}
	if err := metav1.AddMetaToScheme(s); err != nil {
		panic(err)
	}
	return s
}()

// answerProtobuf answers each kind and seed with a random object in both forms, and each quantity with what Go writes.
func answerProtobuf(input io.Reader, output io.Writer) error {
	p := newPrinter(output)
	err := lines(input, func(line []byte, _ bool) error {
		f, err := parseFields(line)
		if err != nil {
			return err
		}
		var answer result
		if f.present("quantity") {
			text, err := need[string](f, "quantity")
			if err != nil {
				return err
			}
			answer = result{"refused": true}
			if quantity, err := apiresource.ParseQuantity(text); err == nil {
				answer = result{"quantity": quantity.String()}
			}
			return p.encoder.Encode(answer)
		}
		kind, err1 := need[string](f, "kind")
		seed, err2 := need[int64](f, "seed")
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if answer, err = randomMessage(kind, &filler{rand.New(rand.NewSource(seed)), seed}); err != nil {
			return fmt.Errorf("%s of seed %d: %w", kind, seed, err)
		}
		return p.encoder.Encode(answer)
	})
	return errors.Join(err, p.out.Flush())
}

// randomMessage is a random message in JSON and in protobuf, each with what it is in the other form. Protobuf does not tell empty and
// null apart, so these are two pairs.
func randomMessage(kind string, f *filler) (result, error) {
	if kind == "WatchEvent" {
		return f.event()
	}
	for _, message := range messages {
		of := reflect.TypeOf(message.object)
		if of.Name() != kind {
			continue
		}
		gvk := runtimeschema.FromAPIVersionAndKind(message.apiVersion, kind)
		object := reflect.New(of)
		f.fill(object.Elem(), 0)
		return bothForms(object.Interface().(runtime.Object), gvk)
	}
	return nil, errors.New("there is no such kind")
}

func bothForms(object runtime.Object, gvk runtimeschema.GroupVersionKind) (result, error) {
	object.GetObjectKind().SetGroupVersionKind(gvk)
	protobuf, err1 := runtime.Encode(asProtobuf, object)
	text, err2 := runtime.Encode(asJSON, object)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	ofProtobuf, err1 := recode(asProtobuf, protobuf, asJSON, gvk)
	ofText, err2 := recode(asJSON, text, asProtobuf, gvk)
	return result{
		"protobuf": base64.StdEncoding.EncodeToString(protobuf), "its_json": string(ofProtobuf),
		"json": string(bytes.TrimSpace(text)), "its_protobuf": base64.StdEncoding.EncodeToString(ofText),
	}, errors.Join(err1, err2)
}

func recode(from runtime.Decoder, encoded []byte, to runtime.Encoder, gvk runtimeschema.GroupVersionKind) ([]byte, error) {
	object, err := runtime.Decode(from, encoded)
	if err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	// The API server makes the items of a list, and never leaves them nil.
	if items := reflect.ValueOf(object).Elem().FieldByName("Items"); items.IsValid() && items.IsNil() {
		items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	}
	recoded, err := runtime.Encode(to, object)
	return bytes.TrimSuffix(recoded, []byte("\n")), err
}

// event is an event of a watch, whose object is in the form of the event.
func (f *filler) event() (result, error) {
	kinds := []string{"Secret", "ConfigMap", "Pod", "Node", "Namespace", "Status", "PartialObjectMetadata"}
	kind := kinds[f.Intn(len(kinds))]
	object, err := randomMessage(kind, f)
	if err != nil {
		return nil, err
	}
	form := func(encoded []byte, err error) metav1.WatchEvent {
		event := metav1.WatchEvent{Type: []string{"ADDED", "MODIFIED", "BOOKMARK", ""}[f.Intn(4)]}
		event.Object.Raw = encoded
		return event
	}
	protobuf := form(base64.StdEncoding.DecodeString(object["protobuf"].(string)))
	itsJSON := metav1.WatchEvent{Type: protobuf.Type, Object: runtime.RawExtension{Raw: []byte(object["its_json"].(string))}}
	text := form([]byte(object["json"].(string)), nil)
	itsProtobuf := metav1.WatchEvent{Type: text.Type}
	itsProtobuf.Object.Raw, _ = base64.StdEncoding.DecodeString(object["its_protobuf"].(string))
	protobufBytes, err1 := protobuf.Marshal()
	itsJSONBytes, err2 := json.Marshal(itsJSON)
	textBytes, err3 := json.Marshal(text)
	itsProtobufBytes, err4 := itsProtobuf.Marshal()
	return result{
		"protobuf": base64.StdEncoding.EncodeToString(protobufBytes), "its_json": string(itsJSONBytes),
		"json": string(textBytes), "its_protobuf": base64.StdEncoding.EncodeToString(itsProtobufBytes),
	}, errors.Join(err1, err2, err3, err4)
}

// filler fills objects sparsely: each field may be zero, nil, empty, or have a value.
type filler struct {
	*rand.Rand
	seed int64
}

// mostDepth bounds the size of objects.
const mostDepth = 12

func (f *filler) fill(v reflect.Value, depth int) {
	// Some objects are nearly empty, others have nearly each field.
	density := []int{10, 30, 60, 85}[f.seed&3]
	isSet := depth <= mostDepth && f.Intn(100) < density
	if depth > 4 {
		isSet = isSet && f.Intn(3) > 0
	}
	switch of := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *metav1.Time:
		if isSet {
			*of = metav1.NewTime(time.Unix(f.Int63n(253402300799), f.Int63n(1e9)))
		}
		return
	case *apiresource.Quantity:
		if isSet {
			if quantity, err := apiresource.ParseQuantity(f.quantity()); err == nil {
				*of = quantity
			}
		}
		return
	case *intstr.IntOrString:
		if isSet {
			*of = []intstr.IntOrString{intstr.FromString(f.text()), intstr.FromInt32(f.Int31())}[f.Intn(2)]
		}
		return
	case *metav1.FieldsV1:
		of.SetRawString([]string{`{}`, `{"f:metadata":{"f:labels":{".":{},"f:a<b":{}}}}`, `[1,"x\n"]`, `null`, `"a"`}[f.Intn(5)])
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), depth+1)
		}
	case reflect.Pointer:
		if isSet {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if !isSet {
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			data := make([]byte, f.Intn(20))
			f.Read(data)
			v.SetBytes(data)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), f.Intn(3), 3))
		for i := range v.Len() {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		if !isSet {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range f.Intn(4) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.SetString([]string{"", "a", "b.c/d", "<&>", "ä", "😀", "\u2028", "\ufffd", f.text()}[f.Intn(9)])
			f.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		if isSet {
			v.SetString(f.text())
		}
	case reflect.Bool:
		v.SetBool(isSet && f.Intn(2) == 0)
	case reflect.Int32, reflect.Int64:
		if isSet {
			v.SetInt([]int64{0, 1, -1, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64, f.Int63()}[f.Intn(8)])
		}
	default:
		panic("no value for " + v.Type().String())
	}
}

// text is a string that may need escapes, and may be no UTF-8.
func (f *filler) text() string {
	texts := []string{
		"", "web", "1", "true", "null", "<a href=\"x\">&amp;</a>", "line\nline\ttab\r\b\f\x00\x1f\x7f", `\"/`, "päß", "😀", "\u2028\u2029", "\ufffd",
		"\xff", "a\xe2\x82", "\xed\xa0\x80", "\xf0\x9f\x98", "\xc0\x80b", "é\xe9é",
	}
	// Keys of maps that are no UTF-8 could become equal, so these are among the values alone, and rare.
	text := texts[f.Intn(len(texts)-6)]
	if f.Intn(20) == 0 {
		text = texts[f.Intn(len(texts))] + texts[f.Intn(len(texts))]
	}
	return text
}

func (f *filler) quantity() string {
	numbers := []string{"0", "1", "-1", "+5", "05", "100", "1000", "1024", "1500", "0.5", "1.5", "0.1", "1.500", "999999999999", "9223372036854775807", "12345678901234567890", "7.25"}
	suffixes := []string{"", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E2", "e-4"}
	return numbers[f.Intn(len(numbers))] + suffixes[f.Intn(len(suffixes))]
}
