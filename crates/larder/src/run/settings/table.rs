//! Every setting, declared once: its key in the file, its flag, its help, and the field that it sets.
//!
//! The field's own struct has the type, the default and the range, which its `validate` checks.

use super::setting::{Field, Setting, settings};

settings! {
    /// Read the API server that this kubeconfig names
    kubeconfig: flag("kubeconfig", "FILE").excludes("manifests").default("the pod's service account, in a pod");
    /// The kubeconfig's context
    context: flag("context", "NAME").excludes("manifests").default("the kubeconfig's current context");
    /// Read pods, Secrets and ConfigMaps from the manifests in this directory; no cluster is needed
    manifests: flag("manifests", "DIR").checked_as("cluster");
    /// The name of this node; larder puts it into lower case, as the kubelet does
    node_name: flag("node-name", "NAME").env("NODE_NAME").default("the host's name");
    /// The socket of the container runtime, as a path or a unix: address; 'none' runs larder without a runtime
    runtime_endpoint: flag("runtime-endpoint", "ENDPOINT").checked_as("runtime")
        .default("the first of the well-known sockets where a runtime answers");
    /// Where to look for the container runtime if runtimeEndpoint names none: the first socket that answers is used
    config.runtime_sockets;
    /// Follow the runtime's event stream; when off, a change shows at the next relist
    config.runtime_events: flag("events", "ON|OFF");
    /// Answer on this Unix socket
    serve.socket: flag("socket", "PATH").env("LARDER_SOCKET");
    /// Serve /metrics, /livez and /readyz, and nothing else, on this TCP address
    serve.metrics_address: flag("metrics-address", "ADDRESS:PORT");
    /// Serve the local API over TLS on this TCP address, to clients with a certificate of the admins' group (`larder
    /// kubeconfig` writes one), and to pods of this node with their service-account tokens
    serve.listen: flag("listen", "ADDRESS:PORT");
    /// How to keep Secrets and ConfigMaps up to date: fetch at every read (direct), fetch at a read after the TTL
    /// (ttl), watch (watch), or choose for each object by how it is used (auto)
    config.change_detection.secrets: flag("change-detection", "STRATEGY");
    /// As changeDetection.secrets, for ConfigMaps; --change-detection sets both
    config.change_detection.config_maps: flag("change-detection", "STRATEGY");
    /// How often readers poll an object. A watch stops when nobody has read its object for five sync periods (at least
    /// one minute), and restarts at the next read
    config.sync_period: flag("sync-period", "DURATION");
    /// The shortest time without a read after which a watch stops, if five sync periods are shorter
    config.min_idle;
    /// How long an object is fresh after a fetch, if the node's annotation does not say
    config.default_ttl: flag("default-ttl", "DURATION");
    /// What to log: off, error, warn, info, debug, trace, or directives such as `larder_kube=debug,info`
    log_level: flag("log-level", "LEVEL").env("LARDER_LOG");
    /// The format of the log on standard error
    log_format: flag("log-format", "FORMAT");

    /// Under direct and ttl, keep the last value that was read, and serve it as stale while fetches fail. When off,
    /// direct has nothing to serve then, and ttl serves its cached entry only to a read whose own fetch fails (not
    /// during a backoff), until a new reference. watch and auto always serve what they hold, as stale
    config.policy.keep_last_known: flag("keep-last-known", "ON|OFF");
    /// Fetch an object as soon as a pod refers to it, not at its first read; not under direct
    config.policy.fetch_on_reference;
    /// Remember for one TTL that an object is absent; when off, larder asks again at each read
    config.policy.serve_absences: flag("serve-absences", "ON|OFF");
    /// When a new pod refers to a watched object, read the object again before it is served
    config.policy.first_read_as_new_as_pod;
    /// Keep an immutable object without a watch
    config.policy.hold_immutable;
    /// Under auto, watch a whole namespace if larder may and if pods refer to most of its objects
    config.policy.watch_namespaces;
    /// Drop the objects of a pod that has succeeded or failed, before the pod is deleted
    config.policy.release_ended_pods;
    /// The pause after the first failed fetch of an object; it doubles with each failure that follows. 0s fetches at
    /// every read
    config.policy.fetch_backoff_initial;
    /// The longest pause between fetches of an object
    config.policy.fetch_backoff_max;
    /// Accept a lower resourceVersion from a consistent read: the etcd was restored from a backup
    config.policy.accept_older_versions;

    /// Show callers more or less, by the rules in this file; read again when it changes
    serve.access.policy: flag("policy", "FILE");
    /// The groups of the host whose processes see everything over the socket, as names of /etc/group or IDs; not those of containers
    serve.access.admin_groups: flag("socket-admin-group", "GROUP").default("none");
    /// Ask the kernel for a pidfd of each process that connects to the socket; when off, as before Linux 6.5, larder opens the process by
    /// its PID
    serve.access.peer_pidfd;

    /// Which decisions on what callers may see have a line in the audit: none, refusals (refused), or all
    serve.audit.level: flag("audit", "LEVEL");
    /// Append the lines of the audit to this file, each as JSON, and not to the log; larder opens the file again when it is rotated
    serve.audit.file: flag("audit-file", "FILE");

    /// The folder of larder's own certificate authority and serving certificate; larder makes it for its own user alone
    serve.tls.directory: flag("tls-directory", "DIR");
    /// The serving certificate, with its chain, if larder is not to issue its own; read again when it changes
    serve.tls.cert_file: flag("tls-cert-file", "FILE");
    /// The key of tls.certFile
    serve.tls.private_key_file: flag("tls-private-key-file", "FILE");
    /// Also take clients with certificates of the authorities in this file; read again when it changes
    serve.tls.client_ca: flag("client-ca", "FILE");
    /// The group (organization, O, in the certificate) of the clients that may read
    serve.tls.admin_group: flag("admin-group", "GROUP");

    /// A file with the public keys that verify the service-account tokens of pods on listen, a JWKS or PEM; read again when a token
    /// names an unknown key. It needs tokens.issuer
    config.tokens.jwks_file: flag("jwks-file", "FILE").default("the API server's /openid/v1/jwks");
    /// The issuer of these tokens: --service-account-issuer of the API server
    config.tokens.issuer: flag("token-issuer", "ISSUER").default("the one that the API server names");
    /// The audiences of which a token names one: --api-audiences of the API server; none stands for the issuer
    config.tokens.audiences;

    /// On listen, send the requests with a token that larder does not answer to the API server, with this token and never larder's: other
    /// kinds, writes, lists that are not of this node alone, callers that larder does not know
    serve.pass_through.enabled: flag("pass-through", "ON|OFF").alone("on");
    /// The most requests that are passed on at once, watches among them; callers whose token larder does not verify have half of them at most
    serve.pass_through.requests;
    /// The same, of one pod, or of one address without a verified pod
    serve.pass_through.caller_requests;
    /// The most connections that are passed on for another protocol (exec, attach, port-forward)
    serve.pass_through.upgrades;
    /// The same, of one pod, or of one address without a verified pod
    serve.pass_through.caller_upgrades;

    /// The time limit of a connection to the API server, with the proxy's tunnel and the TLS handshake
    config.kube.connect_timeout;
    /// The time limit of a credential plugin
    config.kube.plugin_deadline;
    /// Close a connection when the API server has acknowledged nothing for this long
    config.kube.dead_link_timeout;
    /// Send a PING on an HTTP/2 connection that has been silent for this long
    config.kube.ping_interval;
    /// The time limit of a read of one Secret or ConfigMap
    config.kube.fetch_deadline;
    /// The time limit of a page of a list
    config.kube.list_deadline;
    /// The time limit of the start of a watch
    config.kube.watch_deadline;
    /// The shortest time for which larder asks the API server to keep a watch; each watch asks for a random time up to
    /// twice as long
    config.kube.watch_timeout;
    /// Restart a watch that has been silent for this long
    config.kube.idle_timeout;
    /// The pause after the first failure of a list or watch; it doubles with each failure that follows
    config.kube.backoff_initial;
    /// The longest pause between attempts of a list or watch
    config.kube.backoff_max;
    /// The longest Retry-After of the API server that larder obeys
    config.kube.retry_after_max;
    /// For how long after a pod's arrival larder retries after a 403: the Node authorizer may not know the pod yet. A single fetch ends at kube.fetchDeadline
    config.kube.forbidden_grace;
    /// The most objects in a page of a list
    config.kube.page_size;
    /// The most watches on one HTTP/2 connection
    config.kube.streams_per_connection;
    /// The most HTTP/2 connections to the API server; larder polls objects whose watches do not fit
    config.kube.max_connections;
    /// The most requests in flight over HTTP/1.1, nine tenths of them watches; larder polls objects whose watches do not fit
    config.kube.http1_connections;
    /// The most lists and starts of watches of single objects in flight
    config.kube.starts_in_flight;
    /// The largest object that larder accepts, in bytes of JSON
    config.kube.max_object_bytes;
    /// The largest page of a list that larder accepts, in bytes
    config.kube.max_page_bytes;

    /// The time limit of a connection to the container runtime
    config.cri.connect_timeout;
    /// The time limit of a list of sandboxes or containers
    config.cri.list_timeout;
    /// The time limit of a call for the status of one sandbox or container, or for the runtime's version
    config.cri.status_timeout;
    /// The largest message that larder accepts from the runtime, in bytes
    config.cri.max_message_bytes;

    /// The pause between two relists of the containers
    config.pleg.relist_period;
    /// Report the runtime as unhealthy when the last successful relist began longer ago
    config.pleg.relist_threshold;
    /// The shortest pause before a relist that an event or a reader asks for
    config.pleg.relist_pause;
    /// How many pods larder inspects at the same time
    config.pleg.inspection_concurrency;
    /// The time limit of the inspection of one pod
    config.pleg.inspection_deadline;
    /// The pause after the first failed inspection of a pod; it doubles with each failure that follows
    config.pleg.inspection_backoff_initial;
    /// The longest pause between inspections of a pod
    config.pleg.inspection_backoff_max;

    /// The most connections of the host's root, larder's own user and the admin groups
    serve.limits.connections;
    /// The most connections of one pod, to the socket and, by its token, to listen; also of a user or client to whom a rule of the policy file
    /// shows something
    serve.limits.pod_connections;
    /// The most connections of all pods and such users; for one more, larder closes one of the pod that has the most
    serve.limits.pods_connections;
    /// The most requests in flight of one pod, or of such a user or client, watches among them; one more gets a 429
    serve.limits.pod_requests;
    /// The most open watches of one pod, or of such a user or client; one more gets a 429
    serve.limits.pod_watches;
    /// The most bytes of answers that one pod, or such a user or client, has not taken yet; an answer beyond that gets a 429
    serve.limits.pod_bytes;
    /// The same of all pods and such users and clients together; beyond that, each may still have an equal share
    serve.limits.pods_bytes;
    /// The most connections of other callers, who only get a 403
    serve.limits.foreign_connections;
    /// The most requests in flight on one HTTP/2 connection
    serve.limits.http2_streams;
    /// The most requests in flight of root, or of another admin, watches among them; one more gets a 429
    serve.limits.admin_requests;
    /// The most bytes of answers that root, or another admin, has not taken yet; an answer beyond that gets a 429
    serve.limits.admin_bytes;
    /// The most connections to listen of clients that may read
    serve.limits.listen_connections;
    /// The most connections to listen in their handshake, or of clients that may not read or have not shown a token yet; as many of clients that larder does not know, and whose requests are passed on
    serve.limits.listen_foreign_connections;
    /// The most connections to metricsAddress
    serve.limits.metrics_connections;
    /// The most requests on one connection to metricsAddress
    serve.limits.metrics_requests_per_connection;
    /// The time limit for a client to send the head of a request; also how long an idle connection stays open
    serve.limits.head_timeout;
    /// The time limit for a client to take more of its answer
    serve.limits.stall_timeout;
    /// The time limit for the TLS handshake of a client of listen
    serve.limits.handshake_timeout;
    /// As limits.headTimeout, on metricsAddress
    serve.limits.metrics_head_timeout;
    /// As limits.stallTimeout, on metricsAddress
    serve.limits.metrics_stall_timeout;
    /// The time limit of requests in flight when larder ends
    serve.limits.drain_timeout;
}
