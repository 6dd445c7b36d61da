import{Bytes as I,fromBase64 as D}from"./hubbub.js";var m=`Ping 1 26 26
Pong 2 26 26
Close 3 26 
Error 4  59
Disconnect 5  58
SessionInfo 10  57
Auth 11 25 56
SessionRestore 12 24 24
SessionRestored 13  55
Subscribe 20 23 54
Unsubscribe 21 22 53
Publish 22 21 51
Ack 23  52
History 24 20 50
ChannelReset 25  44
Presence 30 12 39
Join 31  39
Leave 32  39
Occupancy 33  38
DocumentGet 40 14 43
DocumentChange 41 13 42
DocumentUpdated 42  41
DocumentInfo 43  40
NotificationNew 50  37
NotificationRead 51  36
NotificationInfo 52 11 35
MarkNotificationAsRead 53 10 34
NotificationList 54 9 33
RPC 60 3 28
StreamEnqueue 61 2 27
TopicSubscribe 70 8 
TopicUnsubscribe 71 7 
TopicGet 72 6 
TopicAck 73 5 
ProducerOpen 74 4 
TopicSubscription 76  32
TopicMessages 77  31
TopicAcked 78  30
ProducerOpened 79  29
SetFilter 120 19 49
UnsetFilter 121 18 48
ListFilters 122 17 47
HCommand 140 1 1
HResult 141 0 0
Threads 150 16 46
Search 151 15 45`,y=`reqID i,result j
reqID i,command j
reqID i,stream,event,payload p,contentType
reqID i,method,payload p,contentType,timeout d
reqID i,topic,producer
reqID i,topic,name,serials *,upTo ?,consumer,giveBack b
reqID i,topic,name,limit i?,wait d,consumer,ackUpTo ?,after ?
reqID i,topic,name
reqID i,topic,name,options <60>,start
reqID i,channel,unread b,after i?,before i?,limit i
reqID i?,channel,ids *,upTo i?,all b
reqID i,channel
reqID i,channel,data j?
reqID i?,channel,ops <61>*,expectedVersion i?,epoch ?,changeID,producer <62>
reqID i,channel,path,since i?,epoch ?,at i?,atTime i?
reqID i,query,channel ?,since i?,until i?,filter j?,order,limit i,cursor ?
reqID i,channel,after ?,limit i,status ?
reqID i,channel ?
reqID i,name,channel ?
reqID i,name,channel ?,template j?,radius d?,relevant b?,condition j?
reqID i,channel,after ?,before ?,afterTime i?,beforeTime i?,epoch ?,limit i,filter j?,conversationID ?
publishes <63>*
reqID i,channels *
reqID i,channels <64>*
restoreKey,reqID i,positions <65>*
reqID i,token,credentials p
reqID i
reqID i,msgID
reqID i,payload p,contentType
reqID i,topic,producer,fence,sequence
reqID i,answer,topic,name,floor
reqID i,answer,topic,name,messages <66>*
reqID i,answer,topic,name,options <60>,epoch,floor ?,head ?,lag i?,handedOut i?,createdAt i?,redeliveries i?,deadLetters i?,missed i?,new b
reqID i,channel,notifications <67>*,more b,epoch,revision i,unread i,total i,newest i
reqID i,success b,marked i,unread i,unknown *,error <68>
reqID i,channel,epoch,revision i,unread i,total i,newest i
channel,revision i,ids *,upTo i?,readAt i,readBy
channel,revision i,notification <67>
channel,count i
channel,presence <69>*,reqID i,error <68>
channel,epoch,version i,ts i,bytes i
channel,epoch,version i,ts i,author ?,changeID,ops <61>*
reqID i,channel,success b,epoch,version i?,ts i,duplicate b,error <68>,opIndex i?,reason ?
reqID i,channel,epoch,version i,ts i,document v,updates <41>*,more b,error <68>
channel,epoch,serial,recovered b
reqID i,hits <70>*,cursor ?,behind i,error <68>
reqID i,channel,threads <71>*,epoch,more b,error <68>
reqID i,filters <72>*
reqID i,name,channel ?,count i
reqID i,name,channel ?
reqID i,channel,messages <51>*,epoch,head,recovered b,more b,error <68>,next ?
channel,event,payload p,msgID,ts i,channelSerial ?,contentType,publisher,retained b,previousSerial ?,attributes A3
published <74>*
reqID i,unsubscribedChannels *,failures <75>*
reqID i,subscribedChannels *,failures <75>*,channels <76>*,patterns <77>*
userID,authorizations <78>*,extra j,subscribedChannels *,rpcs *,sessionID,reqID i,channels <76>*,failures <75>*,patterns <77>*,expiresAt i
reqID i,success b,userID,token,channelAuthorizations <78>*,rpcAuthorizations *,extra j,error <68>,expiresAt i
hubID,sessionID,hubAllowAnonymous b,hubAllowUserChannel b,defaultPublic b,authenticated b,protocolVersion i,userID,pingInterval i,maxMessageBytes i,expiresAt i,maxChannels i,messagesPerSecond d
code,reason,reconnect b,retryAfter d
reqID i,error <68>
shared b?,leaseSeconds d?,maxUnacknowledged i?,maxDeliveries i?,deadLetters ?
op,path,from ?,value v
id,sequence,fence ?
channel,event,payload p,extra <79>,reqID i?,contentType,producer <62>,attributes A,securityToken,idempotencyKey
channel,timestamp i?,serial ?,epoch ?,documentVersion i?,documentEpoch ?,byPattern b,presence j?,token
channel,epoch,serial,documentVersion i?,documentEpoch ?
channel,event,payload p,msgID,ts i,channelSerial ?,contentType,publisher,deliveries i3,redelivered b,attributes A
id,ts i,event,payload p,contentType,author,expiresAt i?,read b,readAt i?,readBy
code,message,retry b,retryAfter d
sessionID,userID,extra j,ts i,data j?
message <51>,score d
conversationID,first <51>,messages i,lastSerial,updatedAt i,status ?
name,channel ?,template j?,radius d?,relevant b?,condition j?
subtype,author,sender,receiver,conversationID,refersTo,priority i?,relevantUntil i?,ttl i?,language,location j,headers j,deliveryPolicy
reqID i,success b,msgID ?,channelSerial ?,error <68>,duplicate b
channel,error <68>
channel,epoch,serial,recovered b
pattern,matches i,recovered b
channel,publish b,subscribe b
store b,push b,retain b,transient b,pushOptions j`;var h=new TextEncoder,u=new TextDecoder("utf-8",{fatal:!0});function j(){let r=y.split(`
`).map(q),e=new Map,t=[];for(let n of m.split(`
`)){let[i,s,a,o]=n.split(" "),c={s:i,o:+s,d:r[+a],u:r[+o]};e.set(i,c),t[c.o]=c}return{subprotocol:"hubbub.proto.v1",encode(n){let i=new p(r);for(let[s,a]of n){let{o,d:c}=e.get(s);i.n(1,()=>{i.t(1,0),i.e(o),i.n(2,()=>i.i(c,a))})}return i.p()},decode(n){let i=new Uint8Array(n),s=new f(i,r),a=[];for(;s.at<i.length;){s.e();let o=s.e()+s.at,c,d={};for(;s.at<o;){let l=s.e();l===8?c=t[s.e()]:l===18&&c?d=s.i(c.u,s.e()+s.at):s.a(l&7)}c&&a.push([c.s,d])}return a}}}function q(r){let e=[],t=0;return{h:(r?r.split(","):[]).map(i=>{let[,s,a,o,c,d,l]=/^(\w+) ?(?:(\w)|<(\d+)>)?(\??)(\*?)(\d*)$/.exec(i);t+=+(l||1);let b={s,r:a??(o?"m":"s"),i:+o,o:t,f:!!c,c:!!d};return e[t]=b,b}),b:e}}var p=class{#t=new Uint8Array(256);#e=0;#i;constructor(e){this.#i=e}p(){return this.#t.slice(0,this.#e)}i({h:e},t){for(let n of e){if(n.r==="A"){let s=this.#i[73];s.h.some(({s:a})=>t[a]!==void 0)&&this.n(n.o,()=>this.i(s,t));continue}let i=n.s==="contentType"?T(t):t[n.s];if(i!=null)if(n.c)for(let s of i)this.#r(n,s);else(n.f||n.r==="m"||n.r==="v"||i!==0&&i!==""&&i!==!1)&&this.#r(n,i)}}#r({r:e,o:t,i:n},i){switch(e){case"s":this.bytes(t,h.encode(i));break;case"b":case"i":this.t(t,0),this.e(+i);break;case"d":this.l(t,i);break;case"j":this.bytes(t,h.encode(JSON.stringify(i)));break;case"p":{let s=A(i);s.length&&this.bytes(t,s);break}case"v":this.n(t,()=>this.#s(i));break;default:this.n(t,()=>this.i(this.#i[n],i))}}#s(e){if(e===null)this.t(2,0,1);else if(typeof e=="boolean")this.t(3,0,+e);else if(typeof e=="string")this.bytes(6,h.encode(e));else if(typeof e=="number")Number.isSafeInteger(e)?this.t(4,0,e):this.l(5,e);else if(Array.isArray(e)){this.t(1,0,1);for(let t of e)this.n(8,()=>this.#s(t))}else if(typeof e.$bytes=="string"&&Object.keys(e).length===1)this.bytes(7,D(e.$bytes));else{this.t(1,0,2);let t=Object.keys(e);for(let s of t)this.n(8,()=>this.#s(e[s]));let[n]=t,i=t.length===1&&/^\$+bytes$/.test(n);for(let s of t)this.bytes(9,h.encode(i?s.slice(1):s))}}t(e,t,n){this.e(e*8+t),n!==void 0&&this.e(n)}e(e){if(this.#n(10),e<0){let t=BigInt.asUintN(64,BigInt(e));for(;t>127n;t>>=7n)this.#t[this.#e++]=Number(t&127n)|128;this.#t[this.#e++]=Number(t);return}for(;e>127;e=Math.floor(e/128))this.#t[this.#e++]=e%128|128;this.#t[this.#e++]=e}l(e,t){this.t(e,1),this.#n(8),new DataView(this.#t.buffer).setFloat64(this.#e,t,!0),this.#e+=8}bytes(e,t){this.t(e,2,t.length),this.#n(t.length),this.#t.set(t,this.#e),this.#e+=t.length}n(e,t){let n=this.#e;this.t(e,2);let i=this.#e;t();let s=this.#t.slice(i,this.#e);this.#e=n,s.length&&this.bytes(e,s)}#n(e){if(this.#e+e<=this.#t.length)return;let t=new Uint8Array(this.#t.length*2+e);t.set(this.#t),this.#t=t}};function A(r){if(r.json!==void 0)return h.encode(JSON.stringify(r.json));if(r.text!==void 0)return h.encode(r.text);let{base64:e}=r;return e instanceof I?e.bytes:typeof e=="string"?D(e):e}function T({contentType:r,payload:e}){return r||!e?r:e.json!==void 0?"application/json":e.text!==void 0?"text/plain":void 0}var f=class{constructor(e,t){this.at=0;this.#t=e,this.#e=new DataView(e.buffer,e.byteOffset,e.length),this.#i=t}#t;#e;#i;i({h:e,b:t},n,i={}){for(let{s,c:a}of e)a&&(i[s]??=[]);for(;this.at<n;){let s=this.e(),a=t[s>>>3];if(!a){this.a(s&7);continue}let{s:o,r:c}=a;c==="A"?this.i(this.#i[73],this.e()+this.at,i):a.c?i[o].push(this.#r(a)):i[o]=this.#r(a)}return i.payload instanceof Uint8Array&&(i.payload=w(i)),i}#r({r:e,i:t}){switch(e){case"s":return this.#a();case"b":return this.e()!==0;case"i":return this.e();case"d":return this.#c();case"j":return JSON.parse(this.#a());case"p":return this.#o();case"v":return this.#s(this.e()+this.at);default:return this.i(this.#i[t],this.e()+this.at)}}#s(e){let t=0,n=null,i=[],s=[];for(;this.at<e;){let o=this.e();o===8?t=this.e():o===24?n=this.e()!==0:o===32?n=this.e():o===41?n=this.#c():o===50?n=this.#a():o===58?n={$bytes:new I(this.#o()).toJSON()}:o===66?i.push(this.#s(this.e()+this.at)):o===74?s.push(this.#a()):this.a(o&7)}if(t===0)return n;if(t===1)return i;let a=s.length===1&&/^\$+bytes$/.test(s[0]);return Object.fromEntries(s.map((o,c)=>[a?`$${o}`:o,i[c]]))}e(){let e=this.at,t=0;for(let i=1;i<2**49;i*=128){let s=this.#n();if(t+=(s&127)*i,s<128)return t}this.at=e;let n=0n;for(let i=0n;;i+=7n){let s=this.#n();if(n+=BigInt(s&127)<<i,s<128)return Number(BigInt.asIntN(64,n))}}#n(){return this.#e.getUint8(this.at++)}#o(){let e=this.e(),t=this.at;if(this.at+=e,this.at>this.#t.length)throw new RangeError("the frame is cut");return this.#t.subarray(t,this.at)}#c(){return this.at+=8,this.#e.getFloat64(this.at-8,!0)}#a(){return u.decode(this.#o())}a(e){e===0?this.e():e===2?this.#o():this.at+=e===1?8:4}};function w(r){let e=r.contentType??"";return/^application\/([^;]*\+)?json\b/.test(e)?(e==="application/json"&&delete r.contentType,{json:JSON.parse(u.decode(r.payload))}):e.startsWith("text/")?(e==="text/plain"&&delete r.contentType,{text:u.decode(r.payload)}):{base64:r.payload}}export{j as protobuf};
