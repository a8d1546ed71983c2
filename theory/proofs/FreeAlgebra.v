(* The free algebra on J_1, ..., J_n: a polynomial in letters that do not commute is the function of
   its coefficients, one for each word, and products are convolutions. The product of n factors
   I + J_k is expanded there and in every ring (Definition 2.1, part 3). *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From AttentionSensitivity Require Import Base Words WordsExtra Collected.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Free.
Variables (K : ringType) (T : eqType).
Implicit Types (f g : seq T -> K) (w s : seq T) (x : T).

(* The polynomial that is one word; the empty word is the identity I. *)
Definition word w : seq T -> K := fun v => (v == w)%:R.

(* The product: a word is cut into a left and a right part in all ways. *)
Definition free_mul f g : seq T -> K :=
  fun w => \sum_(i < (size w).+1) f (take i w) * g (drop i w).

Definition free_add f g : seq T -> K := fun w => f w + g w.

(* The expansion contains the empty word. *)
Definition identity_path f := f [::] != 0.

Lemma free_mul_empty f g : free_mul f g [::] = f [::] * g [::].
Proof. by rewrite /free_mul big_ord1. Qed.

(* Multiplication by a word of one letter, and by I plus a letter, from the left. *)
Lemma free_mul_letter x f w : free_mul (free_add (word [::]) (word [:: x])) f w =
  f w + (if w is y :: v then (y == x)%:R * f v else 0).
Proof.
have e0 : free_add (word [::]) (word [:: x]) [::] = 1 by rewrite /free_add /word eqxx addr0.
have e1 y v : free_add (word [::]) (word [:: x]) (y :: v) = ((y == x) && (v == [::]))%:R.
  by rewrite /free_add /word add0r eqseq_cons.
rewrite /free_mul big_ord_recl /= take0 drop0 e0 mul1r; congr (_ + _).
case: w => [|y v] /=; first by rewrite big_ord0.
rewrite big_ord_recl /= take0 drop0 e1 eqxx andbT big1 ?addr0 // => i _ /=.
by rewrite e1; case: v i => [[]|z v i] //=; rewrite andbF mul0r.
Qed.

(* (I + J_n) ... (I + J_1) for letters listed with later ones first. *)
Definition free_factors s :=
  foldr (fun x => free_mul (free_add (word [::]) (word [:: x]))) (word [::]) s.

Lemma factors_words s w : free_factors s w = \sum_(b <- choices (size s)) word (mask b s) w.
Proof.
elim: s w => [|x s IH] w /=; first by rewrite big_seq1.
rewrite free_mul_letter IH big_cat !big_map /=; congr (_ + _); case: w => [|y v].
  by rewrite big1.
rewrite IH mulr_sumr; apply: eq_bigr => b _; rewrite /word eqseq_cons.
by case: (y == x); rewrite ?mul1r ?mul0r.
Qed.

End Free.

(* The words of the choices with one letter, summed in any way. *)
Section Choices.
Variables (V : zmodType) (T : eqType).

Lemma sum_no_letter (F : seq T -> V) (s : seq T) :
  \sum_(b <- choices (size s) | count id b == 0%N) F (mask b s) = F [::].
Proof.
elim: s F => [|x s IH] F; first by rewrite big_cons big_nil addr0.
rewrite /= big_cat !big_map /= [X in _ + X]big_pred0 // addr0 -[RHS](IH F).
exact: eq_bigl.
Qed.

Lemma sum_one_letter (F : seq T -> V) (s : seq T) :
  \sum_(b <- choices (size s) | count id b == 1%N) F (mask b s) = \sum_(x <- s) F [:: x].
Proof.
elim: s F => [|x s IH] F; first by rewrite big_cons !big_nil.
rewrite /= big_cat !big_map big_cons addrC; congr (_ + _).
  by rewrite -(IH F); apply: eq_bigl.
by rewrite -(sum_no_letter (fun v => F (x :: v)) s); apply: eq_bigl.
Qed.

(* The words with at least two letters. *)
Definition long_words (s : seq T) : seq (seq T) :=
  [seq mask b s | b <- choices (size s) & (2 <= count id b)%N].

Lemma sum_by_length (F : seq T -> V) (s : seq T) :
  \sum_(b <- choices (size s)) F (mask b s) =
  F [::] + \sum_(x <- s) F [:: x] + \sum_(w <- long_words s) F w.
Proof.
rewrite (bigID (fun b => (2 <= count id b)%N)) /= addrC /long_words big_map big_filter.
congr (_ + _); rewrite (bigID (fun b => count id b == 0%N)) /=; congr (_ + _).
  by rewrite -[RHS](sum_no_letter F s); apply: eq_bigl => b; case: (count id b) => [|[|?]].
by rewrite -sum_one_letter; apply: eq_bigl => b; case: (count id b) => [|[|?]].
Qed.

Lemma size_long_words s : size (long_words s) = (2 ^ size s - size s - 1)%N.
Proof. by rewrite size_map size_filter count_remainder subnAC. Qed.

Lemma long_words_uniq s : uniq s -> uniq (long_words s).
Proof.
move=> us; rewrite map_inj_in_uniq ?filter_uniq ?uniq_choices // => b c.
rewrite !mem_filter => /andP[_ hb] /andP[_ hc]; move: hb hc; rewrite !mem_choices.
elim: s b c us => [|x s IH] [|y b] [|z c] //= /andP[xs us] /eqP[bs] /eqP[cs].
have out v a : mask a s = x :: v -> x \in s.
  by move=> e; apply: (mem_subseq (mask_subseq a s)); rewrite e mem_head.
have eqs := IH b c us _ _; rewrite bs cs !eqxx in eqs.
case: y; case: z => /= e.
- by case: e => /(eqs isT isT) ->.
- by case/negP: xs; exact: out _ c (esym e).
- by case/negP: xs; exact: out _ b e.
- by rewrite (eqs isT isT e).
Qed.

Lemma mem_long_words s w : (w \in long_words s) = (2 <= size w)%N && subseq w s.
Proof.
apply/mapP/andP => [[b] | [w2 /subseqP[b bs wE]]].
  rewrite mem_filter mem_choices => /andP[b2 /eqP bs] ->.
  by rewrite size_mask // b2 mask_subseq.
exists b => //; rewrite mem_filter mem_choices bs eqxx andbT.
by rewrite -(size_mask bs) -wE.
Qed.

End Choices.

(* In every ring. *)
Lemma ring_words (A : ringType) (T : eqType) (J : T -> A) (s : seq T) :
  \prod_(x <- s) (1 + J x) = \sum_(b <- choices (size s)) \prod_(x <- mask b s) J x.
Proof.
elim: s => [|x s IH] /=; first by rewrite big_seq1 !big_nil.
rewrite big_cons mulrDl mul1r IH big_cat !big_map /=; congr (_ + _).
by rewrite mulr_sumr; apply: eq_bigr => b _; rewrite big_cons.
Qed.

(* J_1, ..., J_n with later letters on the left. *)
Definition later_first n : seq 'I_n := rev (enum 'I_n).

Lemma size_later_first n : size (later_first n) = n.
Proof. by rewrite size_rev size_enum_ord. Qed.

Lemma later_first_uniq n : uniq (later_first n).
Proof. by rewrite rev_uniq enum_uniq. Qed.

Lemma later_first_sorted n : sorted (fun i j : 'I_n => j < i)%N (later_first n).
Proof.
rewrite rev_sorted -(@sorted_map _ _ val (fun i j => i < j)%N) val_enum_ord.
exact: iota_ltn_sorted.
Qed.

(* Words with decreasing letters are the subsequences of all letters. *)
Lemma decreasing_subseq n (w : seq 'I_n) :
  subseq w (later_first n) = sorted (fun i j : 'I_n => j < i)%N w.
Proof.
have tr : transitive (fun i j : 'I_n => j < i)%N by move=> a b c ba cb; apply: ltn_trans cb ba.
apply/idP/idP => [ws|ws]; first exact: subseq_sorted tr _ _ ws (later_first_sorted n).
have -> : w = filter (mem w) (later_first n); last exact: filter_subseq.
have ir : irreflexive (fun i j : 'I_n => j < i)%N by move=> a; rewrite ltnn.
apply: (irr_sorted_eq tr ir) => //; first exact: sorted_filter tr _ _ (later_first_sorted n).
by move=> i; rewrite mem_filter mem_rev mem_enum andbT.
Qed.

Section Whole.
Variables (K : ringType) (n : nat).
Local Notation letters := (later_first n).
Local Notation W := (long_words letters).

(* The words of R. *)
Theorem remainder_words :
  [/\ uniq W, size W = (2 ^ n - n - 1)%N &
      forall w, (w \in W) = (2 <= size w)%N && sorted (fun i j : 'I_n => j < i)%N w].
Proof.
split; first exact: long_words_uniq (later_first_uniq n).
  by rewrite size_long_words size_later_first.
by move=> w; rewrite mem_long_words decreasing_subseq.
Qed.

(* The expansion, in the free algebra and in every ring. *)
Theorem free_expansion (w : seq 'I_n) : free_factors K letters w =
  word K [::] w + \sum_(k < n) word K [:: k] w + \sum_(v <- W) word K v w.
Proof.
rewrite factors_words (sum_by_length (fun v => word K v w)); congr (_ + _ + _).
by rewrite (perm_big (enum 'I_n)) ?big_enum //= perm_rev.
Qed.

Theorem ring_expansion (A : ringType) (J : 'I_n -> A) : \prod_(k <- letters) (1 + J k) =
  1 + \sum_(k < n) J k + \sum_(v <- W) \prod_(k <- v) J k.
Proof.
rewrite ring_words (sum_by_length (fun v => \prod_(k <- v) J k)) big_nil; congr (_ + _ + _).
under eq_bigr do rewrite big_seq1.
by rewrite (perm_big (enum 'I_n)) ?big_enum //= perm_rev.
Qed.

Theorem bare_identity : identity_path (free_factors K letters).
Proof.
have -> : identity_path (free_factors K letters) = (1 != 0 :> K); last exact: oner_neq0.
rewrite /identity_path; congr (_ != _); elim: letters => [|x s IH]; first by rewrite /= /word eqxx.
by rewrite /= free_mul_letter addr0.
Qed.

End Whole.

(* The post-LN product, in the letters of its LayerNorms (left) and of its attention (right), has no
   bare identity. *)
Theorem no_identity_path (K : ringType) n (s : seq 'I_n) : s != [::] ->
  ~~ identity_path (foldr (fun k => free_mul (free_mul (word K [:: inl k])
    (free_add (word K [::]) (word K [:: inr k])))) (word K [::]) s).
Proof.
case: s => // k s _; rewrite /identity_path /= !free_mul_empty [word _ _ _]/word /= !mul0r.
by rewrite eqxx.
Qed.

(* The expansion says nothing about the value: any element of a ring is such a product, ... *)
Theorem any_product (A : ringType) n (M : A) :
  exists J : 'I_n.+1 -> A, \prod_(k <- later_first n.+1) (1 + J k) = M.
Proof.
exists (fun k => if k == ord0 then M - 1 else 0); rewrite /later_first enum_ordS rev_cons.
rewrite -cats1 big_cat big_seq1 [_ == ord0]eqxx [1 + _]addrC subrK big_seq big1 => [|k].
  exact: mul1r.
by rewrite mem_rev => /mapP[j _ ->]; rewrite addr0.
Qed.

(* ... and n factors I - t I have norm (1 - t)^n in every norm. *)
Theorem shrinking_product (R : rcfType) (V : lmodType R) (N : V -> R) (t : R) (x : V) n :
  is_norm N -> x != 0 -> t <= 1 ->
  is_opnorm N N (iter n (fun y : V => y + (- t) *: y)) ((1 - t) ^+ n).
Proof.
move=> Nn x0 t1; have [N0 NZ _] := Nn; have p0 : 0 <= (1 - t) ^+ n by rewrite exprn_ge0 // subr_ge0.
have Nx : 0 < N x by rewrite lt_def (is_norm_ge0 x Nn) andbT; apply: contraNneq x0 => /N0 ->.
have itE y : iter n (fun y : V => y + (- t) *: y) y = (1 - t) ^+ n *: y.
  elim: n {p0} => [|n IH] /=; first by rewrite expr0 scale1r.
  by rewrite IH scalerA -scalerDl exprS mulrBl mul1r mulNr.
apply: (is_opnorm_attained (x := x)) => //; last by rewrite itE NZ ger0_norm.
by split=> [|y]; rewrite // itE NZ ger0_norm.
Qed.
