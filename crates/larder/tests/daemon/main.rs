//! The real binary as a process: `larder run`, and the commands that ask it.
//!
//! | module | what it shows |
//! | --- | --- |
//! | `manifests` | without a cluster: what is served, refused and told, exit codes, bad documents among good ones |
//! | `requests` | the local API: headers, parameters, methods |
//! | `sockets` | the socket: in use, stale, not one, removed at the end; who may read |
//! | `clients` | clients that send garbage, hang, flood or go away |
//! | `start` | what cannot work is told before anything starts; signals end it |
//! | `metrics` | scraping, and that no name of a Secret is among it |
//! | `events` | what happens to containers: followed, missed and made up for, waited for |
//! | `runtimes` | which container runtime is used, one without events, and one with large lists |
//! | `objects` | faults that were reported of the Secrets and `ConfigMap`s of a node, on each strategy |
//! | `outage` | with a simulated API server and runtime that go away and come back |
//! | `credentials` | certificates, addresses and tokens that change, and credential plugins that hang and fail |
//! | `watches` | lists and watches of the Kubernetes API: resumes, bookmarks, what comes into view and leaves it |
//! | `node_pods` | pods as their node knows them: newer than the API server's, static ones, over `/node`, `/pods` and `larder get` |
//! | `namespaces` | the namespaces of the node's pods: served, refused, without the right to read them, watched |
//! | `whois` | whose a process, a container's ID or a cgroup is: told, waited for, refused |
//! | `access` | what a process in a container sees over the socket, and until when |
//! | `policy` | what the rules of a policy file show and hide, and what a change of the file does |
//! | `policy_changes` | random changes of the policy while watches are open, and what a model says that each may still show |
//! | `limits` | what one pod or user may use at once, and that it takes nothing from others |
//! | `forged` | ten thousand forged attempts to see what is another pod's, of which none succeeds |
//! | `audit` | the lines of decisions: who, what, by which rule, and never a value or a token |
//! | `listen` | the local API over TLS: who is let in, certificates that change, `larder kubeconfig` |
//! | `tokens` | what a pod sees over TLS with its service-account token, and until when |
//! | `pass_through` | what larder does not answer a pod, on its way to the API server with the pod's own token |
//! | `loopback` | `larder proxy`: its token, its kubeconfig, answers that are the daemon's own, its end |
//! | `proxy` | an API server that only a proxy leads to |

mod access;
mod audit;
mod clients;
mod credentials;
mod events;
mod forged;
mod harness;
mod limits;
mod listen;
mod loopback;
mod manifests;
mod metrics;
mod namespaces;
mod node_pods;
mod objects;
mod outage;
mod pass_through;
mod policy;
mod policy_changes;
mod proxy;
mod requests;
mod runtimes;
mod sockets;
mod start;
mod tokens;
mod watch;
mod watches;
mod whois;
